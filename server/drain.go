package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/internal/clock"
)

// watch looks after the streams from outside: it ends those whose clients do
// not read, and those that are idle while the gateway drains. One ticker for
// all costs a call nothing, where a timer per message would.
type watch struct {
	mu       sync.Mutex
	streams  map[*exchange]struct{}
	draining atomic.Bool
}

const (
	watchEveryMax = 250 * time.Millisecond
	watchEveryMin = 5 * time.Millisecond
	// drainIdle is how long a stream without a batch in flight may stay silent
	// while the gateway drains. Long-lived streams never end by themselves.
	drainIdle = time.Second
	// drainFlush is what connections get to write their last trailers.
	drainFlush = time.Second
)

func errDraining() *udfgate.Error {
	err := udfgate.Errorf(udfgate.Draining, "the gateway is shutting down: call another one, or this one later")
	err.Retryable = true
	return err
}

// enter registers a stream, unless the gateway drains or has as many as it may.
func (s *Server) enter(x *exchange) error {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	switch {
	case s.watch.draining.Load():
		return errDraining()
	case len(s.watch.streams) >= s.config.OpenStreamsMax:
		return errStreamsFull(s.config.OpenStreamsMax)
	}
	s.watch.streams[x] = struct{}{}
	s.running.Add(1) // the receiver
	return nil
}

func errStreamsFull(limit int) *udfgate.Error {
	err := udfgate.Errorf(udfgate.QueueFull, "no room for one more call: %s %d are open", openStreamsName, limit)
	err.Retryable = true
	return err
}

func (s *Server) leave(x *exchange) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	delete(s.watch.streams, x)
}

// open is the streams there are now.
func (w *watch) open() []*exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*exchange, 0, len(w.streams))
	for x := range w.streams {
		all = append(all, x)
	}
	return all
}

// startWatch looks every now and then until the returned function is called.
func (s *Server) startWatch() (stop func()) {
	every := min(max(s.config.NotReadingTimeout/8, watchEveryMin), watchEveryMax)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.health.refresh()
				s.look()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// look ends the streams that must end.
func (s *Server) look() {
	now := clock.Now()
	for _, x := range s.watch.open() {
		if since := x.sending.Load(); since > 0 && now-max(since, x.out.taken.Load()) > int64(s.config.NotReadingTimeout) {
			x.cutOff(udfgate.Errorf(udfgate.NotReading,
				"client is not reading its answers: read while writing (none was taken for %s)", s.config.NotReadingTimeout))
		}
		if s.watch.draining.Load() && x.idle(now) {
			x.cutOff(errDraining())
		}
	}
}

// idle says that nothing is in flight and nothing has come for drainIdle. A call
// over HTTP has come whole: what is not in flight yet is still being read.
func (x *exchange) idle(now int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dialect != dialectHTTP && x.turn == x.next && !x.arrived && now-x.came.Load() > int64(drainIdle)
}

// Drain ends the service: not ready, no new calls; calls in flight may finish
// within DrainTimeout or until ctx ends; what is left ends UNAVAILABLE. It
// returns once everything has ended, with an error if something was cut off.
func (s *Server) Drain(ctx context.Context) error {
	s.watch.mu.Lock()
	again := s.watch.draining.Swap(true)
	s.watch.mu.Unlock()
	if again {
		<-s.served
		return nil
	}
	s.health.refresh()
	patience := max(s.config.DrainTimeout, 0) // DrainNow is less
	s.logger.Info("draining", slog.Duration("timeout", patience))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	go s.grpc.GracefulStop() // tells clients to go elsewhere; stop waits for it
	left := s.waitForStreams(ctx)
	cutOff := 0 // fewer than are left: some have ended since
	for _, x := range left {
		if x.cutOff(errDraining()) {
			cutOff++
		}
	}
	s.stop()
	if cutOff > 0 {
		return fmt.Errorf("drain: %d calls did not finish in time and were cut off", cutOff)
	}
	return nil
}

// waitForStreams waits until no stream is left; it returns those that are when
// ctx ends. grpc's own waiting will not do: it includes health watchers, which
// never end.
func (s *Server) waitForStreams(ctx context.Context) []*exchange {
	ticker := time.NewTicker(watchEveryMin)
	defer ticker.Stop()
	for {
		left := s.watch.open()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return left
		}
	}
}

// stop closes everything once trailers had their time, and lets Serve return.
func (s *Server) stop() {
	s.stopOnce.Do(func() {
		s.watch.mu.Lock()
		s.watch.draining.Store(true) // nobody enters any more
		s.watch.mu.Unlock()
		s.stopGRPC()
		s.running.Wait()
		s.crew.dismiss()
		s.stopHTTP()
		s.unbind()
		close(s.served)
	})
}

func (s *Server) stopGRPC() {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
	}()
	timer := time.NewTimer(drainFlush)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
		s.grpc.Stop()
		<-stopped
	}
}

func (s *Server) stopHTTP() {
	if s.http == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainFlush)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // what Shutdown could not wait for
	}
}
