package codec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/udfgate/udfgate"
)

// Databend knows its VARIANT and VECTOR by metadata of its own, at any depth.
// What a field already says of itself is left alone.
func TestDatabendMetadata(t *testing.T) {
	variant := udfgate.Type{Kind: udfgate.LargeBinary, Extension: udfgate.ExtensionVariant}
	vector := udfgate.Type{
		Kind: udfgate.FixedSizeList, Size: 3, Extension: udfgate.ExtensionVector,
		Children: []udfgate.Field{{Name: "item", Type: udfgate.Type{Kind: udfgate.Float32}}},
	}
	list := udfgate.Type{Kind: udfgate.List, Children: []udfgate.Field{{Name: "item", Type: variant}}}
	own := []udfgate.KeyValue{{Key: udfgate.ExtensionKey, Value: udfgate.ExtensionVariant}, {Key: "mine", Value: "1"}}
	schema, err := ReadSchema(AppendSchemaMessage(nil, udfgate.Schema{Fields: []udfgate.Field{
		{Name: "v", Type: variant}, {Name: "n", Type: vector}, {Name: "l", Type: list}, {Name: "own", Type: variant, Metadata: own},
	}}))
	if err != nil {
		t.Fatal(err)
	}
	wanted := []udfgate.KeyValue{{Key: udfgate.ExtensionKey, Value: "Variant"}, {Key: "Extension", Value: "Variant"}}
	for _, f := range []udfgate.Field{schema.Fields[0], schema.Fields[2].Type.Children[0]} {
		if diff := cmp.Diff(wanted, f.Metadata); diff != "" || f.Type.Extension != udfgate.ExtensionVariant {
			t.Errorf("%s is %s (-want +got):\n%s", f.Name, f.Type, diff)
		}
	}
	wanted = []udfgate.KeyValue{{Key: udfgate.ExtensionKey, Value: "Vector"}, {Key: "Extension", Value: "Vector"}, {Key: "vector_size", Value: "3"}}
	if diff := cmp.Diff(wanted, schema.Fields[1].Metadata); diff != "" {
		t.Errorf("vector (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(own, schema.Fields[3].Metadata); diff != "" {
		t.Errorf("own metadata (-want +got):\n%s", diff)
	}
}
