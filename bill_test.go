package udfgate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fillBill sets every field to something that is not zero.
func fillBill(b *Bill, number int64, text string) {
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Int64:
			v.SetInt(number)
		case reflect.Float64:
			v.SetFloat(1.25)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.String:
			v.SetString(text)
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]int64{text: number}))
		default:
			panic("a kind of field that the bill never had: " + v.Kind().String())
		}
	}
	fill(reflect.ValueOf(b).Elem())
}

// tagKeys are the JSON keys of a struct in order, nested ones behind a dot; x
// stands for the names of counters.
func tagKeys(t reflect.Type, prefix string) []string {
	var keys []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		key := prefix + name
		keys = append(keys, key)
		if f.Type.Kind() == reflect.Map {
			keys = append(keys, key+".x")
		}
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, tagKeys(f.Type, key+".")...)
		}
	}
	return keys
}

// writtenKeys are the keys of a JSON object in the order written.
func writtenKeys(t *testing.T, text []byte) []string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(text)))
	var keys []string
	var walk func(prefix string)
	walk = func(prefix string) {
		for d.More() {
			token, err := d.Token()
			key, isText := token.(string)
			if err != nil || !isText {
				t.Fatalf("wanted a key, got %v %v", token, err)
			}
			keys = append(keys, prefix+key)
			if v, _ := d.Token(); v == json.Delim('{') {
				walk(prefix + key + ".")
				_, _ = d.Token()
			}
		}
	}
	_, _ = d.Token()
	walk("")
	return keys
}

func TestBillWritesEveryField(t *testing.T) {
	var full, empty Bill
	fillBill(&full, 7, "x")
	want := tagKeys(reflect.TypeFor[Bill](), "")
	uncounted := slices.DeleteFunc(slices.Clone(want), func(key string) bool { return strings.HasPrefix(key, "counters") })
	for what, text := range map[string][]byte{"full": full.JSON(), "empty": empty.JSON(), "trailer": []byte(full.Trailer())} {
		want := want
		if what == "empty" {
			want = uncounted
		}
		if got := writtenKeys(t, text); !slices.Equal(got, want) {
			t.Errorf("%s: keys\n%v\nwanted as in the struct\n%v", what, got, want)
		}
		var back Bill
		if err := json.Unmarshal(text, &back); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if what != "empty" && !reflect.DeepEqual(back, full) {
			t.Errorf("%s: read back %+v, wanted %+v", what, back, full)
		}
	}
	if got := (&Bill{}).Trailer(); got != "{}" {
		t.Errorf("trailer of an empty bill: %s", got)
	}
}

func TestBillTrailerDropsWorkThenTraceThenPrincipal(t *testing.T) {
	var b Bill
	fillBill(&b, 1234567890, "abc")
	for _, step := range []struct {
		grow *string
		by   int
		gone []string
	}{
		{&b.Function, 140, []string{"work"}},
		{&b.Trace, 250, []string{"work", "trace"}},
		{&b.Principal, 300, []string{"work", "trace", "principal"}},
		{&b.Version, 2000, []string{"work", "trace", "principal", "version", "function"}},
	} {
		*step.grow = strings.Repeat("y", step.by)
		var kept map[string]any
		text := b.Trailer()
		if len(text) > BillTrailerBytesMax {
			t.Errorf("%d bytes, wanted at most %d", len(text), BillTrailerBytesMax)
		}
		if err := json.Unmarshal([]byte(text), &kept); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"work", "trace", "principal", "version", "function"} {
			if _, ok := kept[key]; ok == slices.Contains(step.gone, key) {
				t.Errorf("%d bytes with %d more: key %s kept: %v, wanted gone %v", len(text), step.by, key, ok, step.gone)
			}
		}
		if kept["wall_ns"] == nil {
			t.Error("the wall is gone")
		}
	}
}

func TestBillTrailerIsShortPrintableASCIIWhateverIsInIt(t *testing.T) {
	rng := seeded(t)
	for range 300 {
		var b Bill
		text := make([]rune, rng.IntN(400))
		for i := range text {
			text[i] = []rune{'a', '"', '\\', '\n', 0x7f, 'é', '日', '😀', 0xfffd, 0x2028}[rng.IntN(10)]
		}
		fillBill(&b, rng.Int64()>>rng.IntN(63)*(1-2*rng.Int64N(2)), string(text))
		b.Parallelism = []float64{0, 1, math.NaN(), math.Inf(1), rand.Float64() * 1e9}[rng.IntN(5)]
		trailer := b.Trailer()
		if len(trailer) > BillTrailerBytesMax {
			t.Fatalf("%d bytes: %s", len(trailer), trailer)
		}
		if i := strings.IndexFunc(trailer, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
			t.Fatalf("byte %d of %q cannot be in a gRPC trailer", i, trailer)
		}
		var back Bill
		if err := json.Unmarshal(b.JSON(), &back); err != nil {
			t.Fatalf("%v: %s", err, b.JSON())
		}
		if back.Function != b.Function || back.WallNS != b.WallNS {
			t.Fatalf("read back %q %d, wanted %q %d", back.Function, back.WallNS, b.Function, b.WallNS)
		}
	}
}

func TestAppendQuotedReplacesWhatIsNotUTF8(t *testing.T) {
	if got := string(AppendQuoted(nil, "a\xffb")); got != `"a\ufffdb"` {
		t.Errorf("got %s", got)
	}
}

func TestBillPhasesAddUpToTheWall(t *testing.T) {
	rng := seeded(t)
	for range 200 {
		tl := randomTimeline(rng, 1000)
		p := tl.Partition()
		var b Bill
		b.SetPartition(&p)
		sum := b.QueueNS + b.CoalesceNS + b.StartNS + b.ConversionNS + b.CrossingNS + b.BodyNS + b.ReplyNS + b.OtherNS
		if sum != b.WallNS || b.WallNS != max(tl.To-tl.From, 0) {
			t.Fatalf("phases add up to %d, bill says %d, wall is %d", sum, b.WallNS, tl.To-tl.From)
		}
	}
}

func TestBillParallelismIsFinite(t *testing.T) {
	b := Bill{BodyNS: 3000}
	b.SetWork(Work{BodyNS: 5000})
	if b.Parallelism != 1.667 {
		t.Errorf("got %v, wanted 1.667", b.Parallelism)
	}
	b = Bill{}
	b.SetWork(Work{BodyNS: 5000})
	if b.Parallelism != 1 {
		t.Errorf("without body time: got %v, wanted 1", b.Parallelism)
	}
}

func BenchmarkBillTrailer(b *testing.B) {
	bill := Bill{
		Function: "gcd", Version: "0123456789ab", Dialect: "flight", Path: "python", Worker: "python:4711",
		Rows: 1, BytesIn: 640, BytesOut: 432, Batches: 1, Crossings: 1, Attempts: 1, Principal: "127.0.0.1",
		Trace: "0af7651916cd43dd8448eb211c80319c", SlotBytes: 128, ResultBytes: 64,
	}
	bill.SetPartition(&Partition{0: 812, 1: 4100, 3: 900, 5: 7120, 6: 21034, 7: 1811, 8: 3007, 9: 1500})
	bill.SetWork(Work{1500, 1400, 3007, 1811, 28154})
	b.ReportAllocs()
	for b.Loop() {
		_ = bill.Trailer()
	}
}
