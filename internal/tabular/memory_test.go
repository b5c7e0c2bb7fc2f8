package tabular

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// dictionaryFile writes a Parquet file of rows of 4,000 bytes, which are few on
// disk: their texts are from a dictionary.
func dictionaryFile(t *testing.T, name string, rows int) {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "s", Type: text}, {Name: "a", Type: i64}}, nil))
	var batches []arrow.RecordBatch
	for i := range 1000 {
		b.Field(0).(*array.StringBuilder).Append(strings.Repeat(fmt.Sprintf("%04d", i), 1000))
		b.Field(1).(*array.Int64Builder).Append(int64(i))
	}
	batch := b.NewRecordBatch()
	for range rows / 1000 {
		batches = append(batches, batch)
	}
	write(t, name, batches...)
}

// A Parquet file goes through in bounded memory, however large it is unpacked,
// with all of its columns kept and written again.
func TestParquet_memory(t *testing.T) {
	dir := t.TempDir()
	peak := func(rows int) (most uint64, largest int64) {
		name := filepath.Join(dir, fmt.Sprint(rows)+".parquet")
		dictionaryFile(t, name, rows)
		s, err := open(t, name, fields(i64), Options{Keep: KeepColumns})
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(filepath.Join(dir, "out.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		w, err := NewWriter(out, FormatParquet, false, s.Kept(), []arrow.Field{{Name: "r", Type: i64, Nullable: true}})
		if err != nil {
			t.Fatal(err)
		}
		var stats runtime.MemStats
		total := int64(0)
		for {
			r, err := s.Next(1 << 16)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(r, r.Args.Columns()); err != nil {
				t.Fatal(err)
			}
			largest = max(largest, held(r.Input.Column(0).Data()))
			total += r.Len()
			r.Release()
			// Twice: what a pool of buffers keeps lives through the first, and
			// what counts is held, not merely not yet swept.
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&stats)
			most = max(most, stats.HeapAlloc)
		}
		if err := w.Close(); err != nil || total != int64(rows) {
			t.Fatal(total, err)
		}
		return most, largest
	}
	small, _ := peak(10_000) // 40 MB
	large, batch := peak(50_000)
	t.Logf("heap of %d MB for 40 MB, %d MB for 200 MB; batches of up to %d MB", small>>20, large>>20, batch>>20)
	if large > small+small/2 && large > 8*BatchBytesMax || batch > 2*BatchBytesMax {
		t.Errorf("memory grows with the file, or batches are larger than %d MB", BatchBytesMax>>20)
	}
}
