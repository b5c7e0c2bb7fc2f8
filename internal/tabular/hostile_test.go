package tabular

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/udfgate/udfgate/internal/seed"
)

// wreck opens a file of the bytes and reads it to its end or its error.
func wreck(t *testing.T, name string, data []byte) error {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := open(t, name, fields(i64), Options{Keep: KeepColumns, Columns: []string{"a"}})
	if err != nil {
		return err
	}
	for {
		rows, err := s.Next(100)
		if err != nil {
			return err
		}
		// What is read has to be fit to be printed and written.
		_ = guard(func() error { jsonRows(rows.Input); return nil })
		jsonRows(rows.Args)
		rows.Release()
	}
}

// lowerAllocationMax keeps damaged files from making the test as large as a
// whole file may be.
func lowerAllocationMax(t testing.TB) {
	before := allocationMax
	allocationMax = 64 << 20
	t.Cleanup(func() { allocationMax = before })
}

// Damaged files are errors that say where, and never the end of the program.
func TestDamaged(t *testing.T) {
	lowerAllocationMax(t)
	r := seed.Rand(t)
	batch, _ := others(t)
	dir := t.TempDir()
	for _, name := range []string{"x.parquet", "x.arrow", "x.arrows"} {
		t.Run(name, func(t *testing.T) {
			name := filepath.Join(dir, name)
			write(t, name, batch, batch)
			whole, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for range 300 {
				data := bytes.Clone(whole)
				for range 1 + r.IntN(3) {
					data[r.IntN(len(data))] ^= byte(1 << r.IntN(8))
				}
				if err := wreck(t, name, data); err == nil {
					t.Fatal("no end")
				}
			}
			for range 100 {
				cut := r.IntN(len(whole))
				err := wreck(t, name, whole[:cut])
				// A stream has no end of its own: one cut between two batches is whole.
				if err == nil || err.Error() == "EOF" && !strings.HasSuffix(name, ".arrows") {
					t.Errorf("cut at %d of %d: %v", cut, len(whole), err)
				}
			}
		})
	}
}

func TestDamaged_texts(t *testing.T) {
	batch, _ := others(t)
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		hurt func([]byte) []byte
		want string
	}{
		{"x.parquet", func(b []byte) []byte { return nil }, "parquet has its index at the end, so it is read from a file, not from a pipe"},
		{"x.parquet", func(b []byte) []byte { return []byte("a,b\n1,2\n3,4\n5,6\n\x00\x00\x00\n") }, "not a Parquet file, or a damaged one: parquet: "},
		{"x.parquet", func(b []byte) []byte { return b[:len(b)-9] }, "not a Parquet file, or a damaged one: "},
		{"x.parquet", func(b []byte) []byte { clear(b[4:60]); return b }, "row group 0, at row 0 of the file: "},
		{"x.arrow", func(b []byte) []byte { return nil }, "not an Arrow file, or a damaged one: the file is empty"},
		{"x.arrow", func(b []byte) []byte { return []byte("PAR1....PAR1") }, `not an Arrow file, or a damaged one: its first bytes are "PAR1....`},
		{"x.arrow", func(b []byte) []byte { return []byte("FEA1....FEA1") }, "not an Arrow file, or a damaged one: it is Feather version 1"},
		{"x.arrow", func(b []byte) []byte { return b[:len(b)/2] }, "not an Arrow file, or a damaged one: "},
		{"x.arrows", func(b []byte) []byte { return b[:len(b)-200] }, "record batch 1, at row 2 of the file: the file is cut short: "},
	} {
		name := filepath.Join(dir, c.name)
		write(t, name, batch, batch)
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := wreck(t, name, c.hurt(whole)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %s", c.name, err, c.want)
		}
	}
}

// A file cannot ask for more memory than there may be.
func TestLimited(t *testing.T) {
	for _, size := range []int{-1, allocationMax + 1, 1 << 60} {
		err := guard(func() error { newLimited().Allocate(size); return nil })
		if err == nil || !strings.Contains(err.Error(), "at most 2147483648 are taken") {
			t.Errorf("%d: %v", size, err)
		}
	}
}

func FuzzParquet(f *testing.F) { fuzzFile(f, "x.parquet") }

func FuzzArrow(f *testing.F) { fuzzFile(f, "x.arrow") }

func fuzzFile(f *testing.F, name string) {
	lowerAllocationMax(f)
	f.Add([]byte("ARROW1\x00\x00"))
	f.Add([]byte("PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if wreck(t, filepath.Join(t.TempDir(), name), data) == nil {
			t.Error("no end")
		}
	})
}

func FuzzJSONL(f *testing.F) {
	f.Add([]byte("{\"a\":1,\"b\":\"x\\\"y\"}\n[1,null]\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := NewJSONL(bytes.NewReader(file), fields(i64, text), Options{Keep: KeepColumns})
		if err == nil {
			_, _, _ = drain(s, 3) // must end without a panic
		}
	})
}
