package codec

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/udfgate/udfgate"
)

// A key twice is an error of its row where maps become dicts, under nulls and in
// maps that become pairs it is none.
func TestCheckMaps(t *testing.T) {
	floats := arrow.MapOf(arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Int32)
	b := array.NewMapBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Int32, false)
	keys, values := b.KeyBuilder().(*array.Float64Builder), b.ItemBuilder().(*array.Int32Builder)
	put := func(all ...float64) {
		b.Append(true)
		for _, k := range all {
			keys.Append(k)
			values.Append(1)
		}
	}
	put(1, 2)
	put()
	b.AppendNull()
	put(0, 3, negativeZero())
	column := b.NewArray()
	batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "m", Type: floats, Nullable: true}}, nil), []arrow.Array{column}, 4)
	header, body := arrowMessage(t, batch)
	var m Message
	if err := ReadMessage(header, &m); err != nil {
		t.Fatal(err)
	}
	field := udfgate.Field{Name: "m", Nullable: true, Type: fromArrowType(floats)}
	for view, want := range map[udfgate.View]int64{udfgate.ViewDefault: 3, udfgate.ViewPairs: udfgate.NoRow} {
		field.Type.View = view
		decoded, err := decodeBody(testStore(t), []udfgate.Field{field}, &m, body)
		if err != nil {
			t.Fatal(err)
		}
		row := int64(udfgate.NoRow)
		if err := CheckMaps(decoded); err != nil {
			row = udfgate.AsError(err).Row
		}
		if row != want {
			t.Errorf("view %d: wanted row %d, got %d", view, want, row)
		}
		decoded.Release()
	}
}

func negativeZero() float64 {
	zero := 0.0
	return -zero
}
