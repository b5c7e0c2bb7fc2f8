package server

import (
	"context"
	"slices"
	"sync"

	"github.com/udfgate/udfgate"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// healthService is grpc's own health service, for the gateway ("") and for
// each function by every name that calls it. Its states follow the catalog.
type healthService struct {
	*health.Server
	server *Server

	mu    sync.Mutex
	state grpc_health_v1.HealthCheckResponse_ServingStatus
	told  []*udfgate.Function // functions that have this state
}

func newHealthService(s *Server) *healthService {
	h := &healthService{Server: health.NewServer(), server: s}
	h.refresh()
	return h
}

// Check implements the Health service; it never answers with an old state.
func (h *healthService) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	h.refresh()
	return h.Server.Check(ctx, r)
}

// Watch implements the Health service; it begins with the state of now.
func (h *healthService) Watch(r *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	h.refresh()
	return h.Server.Watch(r, stream)
}

// refresh sets all states; watchers are told of those that change.
func (h *healthService) refresh() {
	state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if h.server.ready() {
		state = grpc_health_v1.HealthCheckResponse_SERVING
	}
	functions := h.server.catalog.Functions()
	h.mu.Lock()
	defer h.mu.Unlock()
	if state == h.state && slices.Equal(functions, h.told) {
		return
	}
	h.state, h.told = state, functions
	h.SetServingStatus("", state)
	for _, f := range functions {
		name := shownName(h.server.catalog, f)
		h.SetServingStatus(f.Canonical(), state)
		h.SetServingStatus(name, state)
		h.server.metrics.Function(f, name) // its series are there before its first call
	}
}

// ready says that calls may come now.
func (s *Server) ready() bool { return s.catalog.Ready() && !s.watch.draining.Load() }
