package client

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate/internal/arrowtype"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Function is what a gateway says about one of its functions.
type Function struct {
	// Name is the shortest name that is unique in the gateway, from Function the
	// one that was asked for.
	Name string
	Args []arrow.Field
	// Result is what the function answers for a row, a table function for each
	// row of the table.
	Result arrow.Field
	// Table says that it answers any number of rows per row: CallTable and
	// StreamTable call it, Call and Stream the others.
	Table      bool
	Mode       string
	Volatility string
	Version    string
	// Path and Pool say how and where the body runs; empty if not told.
	Path, Pool string
}

// Kind is "table" or "scalar".
func (f *Function) Kind() string {
	if f.Table {
		return "table"
	}
	return "scalar"
}

// Signature is the function as people write it: name(a int64, b list<utf8>?) -> int64,
// or -> table of int64.
func (f *Function) Signature() string {
	s := f.Name + "("
	for i, a := range f.Args {
		if i > 0 {
			s += ", "
		}
		s += a.Name + " " + typeName(a)
	}
	s += ") -> "
	if f.Table {
		s += "table of "
	}
	return s + typeName(f.Result)
}

func typeName(f arrow.Field) string {
	if f.Nullable {
		return arrowtype.Name(f) + "?"
	}
	return arrowtype.Name(f)
}

// Schema is that of a batch of arguments.
func (f *Function) Schema() *arrow.Schema { return arrow.NewSchema(f.Args, nil) }

// Functions lists what the gateway serves, in its order.
func (c *Client) Functions(ctx context.Context) ([]Function, error) {
	ctx, cancel := c.call.begin(ctx)
	defer cancel() // frees the stream where it is left early
	stream, err := c.rpc.ListFlights(ctx, &flight.Criteria{})
	if err != nil {
		return nil, parseError(err, nil)
	}
	var out []Function
	for {
		info, err := stream.Recv()
		if isEOF(err) {
			return out, nil
		}
		if err != nil {
			return nil, parseError(err, stream.Trailer())
		}
		f, err := parseFunction(info)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
}

// Function asks for one function by its short or canonical name.
//
// # Errors
//
// No such function: *Error of reason NOT_FOUND, naming near ones.
func (c *Client) Function(ctx context.Context, name string) (*Function, error) {
	descriptor := &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{name}}
	ctx, cancel := c.call.begin(ctx)
	defer cancel()
	var trailer metadata.MD
	info, err := c.rpc.GetFlightInfo(ctx, descriptor, grpc.Trailer(&trailer))
	if err != nil {
		return nil, parseError(err, trailer)
	}
	f, err := parseFunction(info)
	if err != nil {
		return nil, err
	}
	return &f, nil
}

// parseFunction reads the arrow-udf form: the schema holds the arguments, then
// the result, in front of which a table function has the column row;
// total_records counts the arguments.
func parseFunction(info *flight.FlightInfo) (Function, error) {
	path := info.GetFlightDescriptor().GetPath()
	if len(path) == 0 {
		return Function{}, fmt.Errorf("flight info: wanted a path with the function's name, got none")
	}
	schema, err := flight.DeserializeSchema(info.GetSchema(), memory.DefaultAllocator)
	if err != nil {
		return Function{}, fmt.Errorf("flight info of %s: schema: %w", path[0], arrowtype.Misread(err))
	}
	fields, args := schema.Fields(), info.GetTotalRecords()
	if args < 0 || args >= int64(len(fields)) {
		return Function{}, fmt.Errorf("flight info of %s: wanted %d arguments and a result, got %d columns", path[0], args, len(fields))
	}
	result := fields[args:]
	table := isTable(result)
	if table {
		result = result[1:]
	}
	md := schema.Metadata()
	get := func(key string) string {
		v, _ := md.GetValue(key)
		return v
	}
	return Function{
		Name: path[0], Args: fields[:args], Result: result[0], Table: table,
		Mode: get("udfgate-mode"), Volatility: get("udfgate-volatility"), Version: get("udfgate-version"),
		Path: get("udfgate-path"), Pool: get("udfgate-pool"),
	}, nil
}
