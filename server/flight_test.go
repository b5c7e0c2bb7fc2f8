package server

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/udfgate/udfgate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

func TestGetFlightInfo(t *testing.T) {
	g := start(t, Config{}, map[string]body{"gcd": echo})
	for _, name := range []string{"gcd", "geo.gcd"} {
		got, err := g.client.GetFlightInfo(t.Context(), path(name))
		if err != nil {
			t.Fatal(err)
		}
		if got.GetTotalRecords() != 1 || !slices.Equal(got.GetFlightDescriptor().GetPath(), []string{name}) || len(got.GetEndpoint()) != 0 {
			t.Errorf("got %v", got)
		}
		schema, err := flight.DeserializeSchema(got.GetSchema(), memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		want := arrow.NewSchema([]arrow.Field{
			{Name: "a", Type: arrow.PrimitiveTypes.Int64},
			{Name: "gcd", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		}, nil)
		if !schema.Equal(want) {
			t.Errorf("got %v, wanted %v", schema, want)
		}
		md := schema.Metadata()
		if diff := cmp.Diff(map[string]string{
			"x-databend-udf-input-count": "1", "udfgate-volatility": "volatile", "udfgate-kind": "scalar", "udfgate-mode": "row",
			"udfgate-version": "0123456789ab", "udfgate-path": "python", "udfgate-pool": "default",
		}, md.ToMap()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestGetFlightInfoRefuses(t *testing.T) {
	g := start(t, Config{}, map[string]body{"gcd": echo})
	for text, d := range map[string]*flight.FlightDescriptor{
		"wanted type PATH, got CMD":      {Type: flight.DescriptorCMD, Cmd: []byte("x")},
		"got 2 elements":                 path("geo", "gcd"),
		"wanted type PATH (1), got 0":    {},
		"wanted a path of one element, ": path(),
	} {
		var trailer metadata.MD
		_, err := g.client.GetFlightInfo(t.Context(), d, grpc.Trailer(&trailer))
		checkFailure(t, err, trailer, "InvalidArgument", udfgate.Invalid, text)
	}
	var trailer metadata.MD
	_, err := g.client.GetFlightInfo(t.Context(), path("GDC"), grpc.Trailer(&trailer))
	checkFailure(t, err, trailer, "NotFound", udfgate.NotFound, `no function "GDC": nearest names are "gcd"`)
}

func TestListFlights(t *testing.T) {
	g := start(t, Config{}, map[string]body{"gcd": echo, "clean": echo})
	s, err := g.client.ListFlights(t.Context(), &flight.Criteria{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for {
		info, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.GetFlightDescriptor().GetPath()...)
	}
	if !slices.Equal(names, []string{"clean", "gcd"}) {
		t.Errorf("got %v", names)
	}
}

// The version must be answered before functions are ready: clients take any
// error for version 1.
func TestProtocolVersion(t *testing.T) {
	g := start(t, Config{}, map[string]body{"gcd": echo})
	g.table.SetReady(false)
	s, err := g.client.DoAction(t.Context(), &flight.Action{Type: "protocol_version"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Recv()
	if err != nil || !slices.Equal(r.GetBody(), []byte{2}) {
		t.Errorf("got %v %v", r, err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("a second result: %v", err)
	}
}

func TestOtherMethodsAreRefusedByName(t *testing.T) {
	g := start(t, Config{}, map[string]body{"gcd": echo})
	action, err := g.client.DoAction(t.Context(), &flight.Action{Type: "healthcheck"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = action.Recv()
	checkFailure(t, err, action.Trailer(), "Unimplemented", udfgate.Invalid, `no action "healthcheck": wanted protocol_version`)
	actions, err := g.client.ListActions(t.Context(), &flight.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := actions.Recv(); err != nil || a.GetType() != "protocol_version" {
		t.Errorf("got %v %v", a, err)
	}
	get, err := g.client.DoGet(t.Context(), &flight.Ticket{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = get.Recv()
	checkFailure(t, err, get.Trailer(), "Unimplemented", udfgate.Invalid, "DoGet is not offered: wanted GetFlightInfo")
	put, err := g.client.DoPut(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = put.Recv()
	checkFailure(t, err, put.Trailer(), "Unimplemented", udfgate.Invalid, "DoPut is not offered")
	hand, err := g.client.Handshake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = hand.Recv()
	checkFailure(t, err, hand.Trailer(), "Unimplemented", udfgate.Invalid, "Handshake is not offered")
	_, err = g.client.GetSchema(t.Context(), path("gcd"))
	checkFailure(t, err, nil, "Unimplemented", udfgate.Invalid, "GetSchema is not offered")
	_, err = g.client.PollFlightInfo(t.Context(), path("gcd"))
	checkFailure(t, err, nil, "Unimplemented", udfgate.Invalid, "PollFlightInfo is not offered")
}

func TestCatalogNames(t *testing.T) {
	fn := func(module, name string) Served {
		return Served{Function: &udfgate.Function{Module: module, Name: name}}
	}
	table, err := NewCatalog([]Served{fn("geo", "f"), fn("text", "f"), fn("text", "clean"), fn("text", "clear"), fn("text", "clew")})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"geo.f": "geo.f", "text.f": "text.f", "clean": "text.clean", "text.clean": "text.clean",
	} {
		if f, _, err := table.Lookup(name); err != nil || f.Canonical() != want {
			t.Errorf("%s: got %v %v, wanted %s", name, f, err, want)
		}
	}
	for name, want := range map[string]string{
		"f":                                    `function name "f" is ambiguous: wanted one of "geo.f", "text.f"`,
		"Cleam":                                `no function "Cleam": nearest names are "clean", "clear", "clew"`,
		"text.claen":                           `no function "text.claen": nearest names are "text.clean", "text.clew", "text.clear"`,
		"something else":                       `no function "something else": none of the 5 that are served has a similar name`,
		strings.Repeat("x", 100_000):           "none of the 5 that are served",
		"\xff\xfe":                             "no function",
		strings.Repeat("日", nameBytesMax) + "": "no function",
	} {
		_, _, err := table.Lookup(name)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 4*nameBytesMax {
			t.Errorf("%.20q: got %v, wanted %s", name, err, want)
		}
	}
	if shownName(table, table.functions[0]) != "geo.f" || shownName(table, table.functions[2]) != "clean" {
		t.Error("shown names are wrong")
	}
	if _, err := NewCatalog([]Served{fn("geo", "f"), fn("geo", "f")}); err == nil || !strings.Contains(err.Error(), "geo.f") {
		t.Errorf("twice the same: %v", err)
	}
	if _, _, err := (&Table{}).Lookup("f"); err == nil {
		t.Error("found a function in an empty table")
	}
}
