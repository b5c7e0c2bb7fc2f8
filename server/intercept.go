package server

import (
	"context"
	"log/slog"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// interceptors are those of every method. They see only that a call starts and
// ends: payload events and validators would demand protobuf messages, and
// DoExchange has none.
func (s *Server) interceptors() []grpc.ServerOption {
	onPanic := recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
		return s.refuse(ctx, s.recovered(p))
	})
	stream := []grpc.StreamServerInterceptor{recovery.StreamServerInterceptor(onPanic)}
	unary := []grpc.UnaryServerInterceptor{recovery.UnaryServerInterceptor(onPanic)}
	// A line per call is for looking at single calls; building it costs more
	// than the rest of the server, so it is there only where it is read.
	if s.logger.Enabled(context.Background(), slog.LevelDebug) {
		opts := []logging.Option{
			logging.WithLogOnEvents(logging.StartCall, logging.FinishCall),
			logging.WithLevels(func(codes.Code) logging.Level { return logging.LevelDebug }),
		}
		stream = append(stream, logging.StreamServerInterceptor(s.logCall(), opts...))
		unary = append(unary, logging.UnaryServerInterceptor(s.logCall(), opts...))
	}
	return []grpc.ServerOption{grpc.ChainStreamInterceptor(stream...), grpc.ChainUnaryInterceptor(unary...)}
}

// logCall adapts the gateway's logger.
func (s *Server) logCall() logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, msg string, fields ...any) {
		s.logger.Log(ctx, slog.Level(level), msg, fields...) //nolint:sloglint // the interceptor's own words
	})
}
