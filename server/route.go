package server

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/udfgate/udfgate"
	"github.com/udfgate/udfgate/codec"
	"github.com/udfgate/udfgate/internal/metrics"
	"google.golang.org/grpc/mem"
)

// route is what every stream of one function shares: made once, never changed.
type route struct {
	function *udfgate.Function
	backend  Backend
	name     string // as shown: short where unique
	limits   codec.Limits
	// schemas are the FlightData messages that answer the schema: of calls that
	// want the function's own, failed rows null, and an error column.
	schemas struct{ plain, nulls, errors mem.Buffer }
	series  *metrics.Function
	tally   *tally
	// taken is the schema message that was last found right: clients of one
	// kind send the same bytes with every call.
	taken atomic.Pointer[takenSchema]
}

// takenSchema is a schema message and what decodes the batches that follow it.
type takenSchema struct {
	header  string
	decoder *codec.Decoder
}

// schemaKnownBytesMax bounds the schema message that a route remembers.
const schemaKnownBytesMax = 16 << 10

// knownSchema is the decoder for a header that was found right before, or nil.
func (r *route) knownSchema(header []byte) *codec.Decoder {
	if known := r.taken.Load(); known != nil && known.header == string(header) {
		return known.decoder
	}
	return nil
}

// checkSchema compares a schema with the function's arguments and returns what
// decodes batches of it.
func (r *route) checkSchema(header []byte) (*codec.Decoder, error) {
	schema, err := codec.ReadSchema(header)
	if err != nil {
		return nil, err
	}
	if err := codec.CheckArgs(r.function, schema); err != nil {
		return nil, err
	}
	decoder := codec.NewDecoder(r.function.Args, schema.Fields, r.limits)
	if len(header) <= schemaKnownBytesMax {
		r.taken.Store(&takenSchema{string(header), decoder})
	}
	return decoder, nil
}

// resolve finds the route of a name.
func (s *Server) resolve(name string) (*route, error) {
	f, backend, err := s.catalog.Lookup(name)
	if err != nil {
		return nil, err
	}
	if r, ok := s.routes.Load(f); ok {
		return r.(*route), nil //nolint:errcheck // the map holds nothing else
	}
	r := &route{
		function: f,
		backend:  backend,
		name:     shownName(s.catalog, f),
		limits: codec.Limits{
			RowsMax: s.config.BatchRowsMax, RowsName: batchRowsName,
			BytesMax: s.config.MessageBytesMax, BytesName: messageBytesName,
		},
	}
	errorColumn := udfgate.Field{Name: errorColumnName, Type: udfgate.Type{Kind: udfgate.Utf8}, Nullable: true}
	r.schemas.plain = schemaMessage(resultFields(f, f.OnError))
	r.schemas.nulls = schemaMessage(resultFields(f, udfgate.OnErrorNull))
	r.schemas.errors = schemaMessage(append(resultFields(f, udfgate.OnErrorReject), errorColumn))
	r.series = s.metrics.Function(f, r.name)
	r.tally = s.tallies.of(f)
	kept, _ := s.routes.LoadOrStore(f, r)
	return kept.(*route), nil //nolint:errcheck // the map holds nothing else
}

// errorColumnName is the field of answers that says why a row was rejected.
const errorColumnName = "error"

// resultFields is the columns that a call answers: one, or of a table function
// the input row and the value.
func resultFields(f *udfgate.Function, how udfgate.OnError) []udfgate.Field {
	if f.Table {
		return []udfgate.Field{udfgate.RowField(), f.ResultField(how)}
	}
	return []udfgate.Field{f.ResultField(how)}
}

// schemaMessage is the FlightData message of a schema.
func schemaMessage(fields []udfgate.Field) mem.Buffer {
	header := codec.AppendSchemaMessage(nil, udfgate.Schema{Fields: fields})
	return mem.SliceBuffer(codec.AppendFlightData(nil, nil, header, nil, -1))
}

// schema is the message that answers the schema of a call.
func (r *route) schema(h *headers) mem.Buffer {
	switch {
	case h.rejects():
		return r.schemas.errors
	case h.onError.KeepsGoing():
		return r.schemas.nulls
	default:
		return r.schemas.plain
	}
}

// kindOf is what a FlightInfo and a Description call the function.
func kindOf(f *udfgate.Function) string {
	if f.Table {
		return "table"
	}
	return "scalar"
}

// infoSchema is the schema in a FlightInfo: inputs, then the output.
func infoSchema(f *udfgate.Function) udfgate.Schema {
	fields := slices.Concat(f.Args, resultFields(f, f.OnError))
	return udfgate.Schema{Fields: fields, Metadata: []udfgate.KeyValue{
		{Key: "x-databend-udf-input-count", Value: strconv.Itoa(len(f.Args))},
		{Key: "udfgate-volatility", Value: string(f.Volatility)},
		{Key: "udfgate-mode", Value: string(f.Mode)},
		{Key: "udfgate-kind", Value: kindOf(f)},
		{Key: "udfgate-version", Value: f.Version},
		{Key: "udfgate-path", Value: pathPython},
		{Key: "udfgate-pool", Value: f.Pool},
	}}
}
