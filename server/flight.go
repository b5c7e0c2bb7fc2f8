package server

import (
	"context"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Actions of DoAction.
const (
	actionVersion   = "protocol_version"
	protocolVersion = 2 // of arrow-udf's Flight contract
)

// flightService is every method of Flight but DoExchange, which exchange
// handles. What it does not offer says so by name.
type flightService struct {
	flight.UnimplementedFlightServiceServer
	server *Server
}

// GetFlightInfo describes a function.
func (f *flightService) GetFlightInfo(ctx context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	name, err := functionName(int32(d.GetType()), d.GetPath())
	if err != nil {
		return nil, f.server.refuse(ctx, err)
	}
	route, err := f.server.resolve(name)
	if err != nil {
		return nil, f.server.refuse(ctx, err)
	}
	return info(route.function, name), nil
}

// ListFlights describes every function.
func (f *flightService) ListFlights(_ *flight.Criteria, out flight.FlightService_ListFlightsServer) error {
	for _, function := range f.server.catalog.Functions() {
		if err := out.Send(info(function, shownName(f.server.catalog, function))); err != nil {
			return err
		}
	}
	return nil
}

// info is the FlightInfo that arrow-udf's clients and Databend's both read:
// total_records is the number of inputs.
func info(f *udfgate.Function, name string) *flight.FlightInfo {
	return &flight.FlightInfo{
		Schema:           codec.EncapsulateSchema(infoSchema(f)),
		FlightDescriptor: &flight.FlightDescriptor{Type: flight.FlightDescriptor_PATH, Path: []string{name}},
		TotalRecords:     int64(len(f.Args)),
	}
}

// DoAction answers protocol_version, which clients ask before anything else
// and take for version 1 if it fails.
func (f *flightService) DoAction(a *flight.Action, out flight.FlightService_DoActionServer) error {
	if a.GetType() == actionVersion {
		return out.Send(&flight.Result{Body: []byte{protocolVersion}})
	}
	return f.server.refuse(out.Context(), udfgate.Invalidf(udfgate.ShapeUnsupported,
		"no action %q: wanted %s", cut(a.GetType(), nameBytesMax), actionVersion))
}

// ListActions lists what DoAction answers.
func (f *flightService) ListActions(_ *flight.Empty, out flight.FlightService_ListActionsServer) error {
	return out.Send(&flight.ActionType{Type: actionVersion, Description: "version of arrow-udf's Flight contract, one byte"})
}

// missing is the error of a Flight method that has no meaning here.
func (f *flightService) missing(ctx context.Context, method string) error {
	return f.server.refuse(ctx, udfgate.Invalidf(udfgate.ShapeUnsupported,
		"%s is not offered: wanted %s", method, strings.Join([]string{"GetFlightInfo", "ListFlights", "DoExchange", "DoAction"}, ", ")))
}

// Handshake is not offered.
func (f *flightService) Handshake(s flight.FlightService_HandshakeServer) error {
	return f.missing(s.Context(), "Handshake")
}

// PollFlightInfo is not offered.
func (f *flightService) PollFlightInfo(ctx context.Context, _ *flight.FlightDescriptor) (*flight.PollInfo, error) {
	return nil, f.missing(ctx, "PollFlightInfo")
}

// GetSchema is not offered.
func (f *flightService) GetSchema(ctx context.Context, _ *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	return nil, f.missing(ctx, "GetSchema")
}

// DoGet is not offered.
func (f *flightService) DoGet(_ *flight.Ticket, s flight.FlightService_DoGetServer) error {
	return f.missing(s.Context(), "DoGet")
}

// DoPut is not offered.
func (f *flightService) DoPut(s flight.FlightService_DoPutServer) error {
	return f.missing(s.Context(), "DoPut")
}

// refuse is the status of a request that got no further, with the trailers.
func (s *Server) refuse(ctx context.Context, err error) error {
	f := s.fail(udfgate.AsError(err), noBatch)
	md := metadata.MD{}
	f.trailer(md)
	// It can only fail where there is no call, and then nobody is there to tell.
	_ = grpc.SetTrailer(ctx, md)
	s.countRefused(f.err.Reason)
	return f.status()
}

// countRefused counts the calls that were refused: for what the caller did, or
// for a limit. Failures while running are outcomes of calls.
func (s *Server) countRefused(r udfgate.Reason) {
	switch r {
	case udfgate.Invalid, udfgate.NotFound, udfgate.Unauthenticated, udfgate.Permission,
		udfgate.QueueFull, udfgate.Draining, udfgate.NotReading:
		s.metrics.Rejected(r)
	}
}
