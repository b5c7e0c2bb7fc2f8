// Command tabular measures what memory `udfgate call` takes for Parquet files
// of growing size: it writes files of SIZE bytes once unpacked, has a gateway
// of the call's own run a function over each, and prints the most memory that
// the process held (VmHWM). The files are small on disk, their values are from
// a dictionary; what is measured is how much is unpacked at a time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

const (
	rowText   = 1000         // bytes of the text in a row
	rowBytes  = rowText + 16 // with the number and what Arrow adds
	distinct  = 256          // texts
	batchRows = 1 << 16
	groupRows = 1 << 20
)

const body = `
def size(text: str, n: int) -> int:
    return len(text) + n
`

func main() {
	udfgate := flag.String("udfgate", "bin/udfgate", "binary to measure")
	python := flag.String("python", "python3", "interpreter of its workers")
	sizes := flag.String("gib", "1,10", "sizes of the files in GiB, once unpacked")
	flag.Parse()
	if err := run(*udfgate, *python, strings.Split(*sizes, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "tabular:", err)
		os.Exit(1)
	}
}

func run(udfgate, python string, sizes []string) error {
	dir, err := os.MkdirTemp("", "udfgate-tabular-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	functions := filepath.Join(dir, "size.py")
	if err := os.WriteFile(functions, []byte(body), 0o600); err != nil {
		return err
	}
	fmt.Println("| unpacked | on disk | call with | time | most memory |\n|---|---|---|---|---|")
	for _, size := range sizes {
		gib, err := strconv.ParseFloat(size, 64)
		if err != nil {
			return err
		}
		name := filepath.Join(dir, size+".parquet")
		if err := generate(name, int64(gib*(1<<30))/rowBytes); err != nil {
			return err
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		out := filepath.Join(dir, "out.parquet")
		for _, more := range [][]string{nil, {"--output", out}} {
			args := append([]string{"call", "size", "--serve", functions, "--python", python, "--input", name}, more...)
			took, peak, err := measure(udfgate, args)
			if err != nil {
				return err
			}
			with := "a table"
			if more != nil {
				with = "--output"
			}
			fmt.Printf("| %s GiB | %d MiB | %s | %.1f s | %d MiB |\n", size, info.Size()>>20, with, took.Seconds(), peak>>10)
		}
	}
	return nil
}

// generate writes a file of rows.
func generate(name string, rows int64) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String}, {Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithMaxRowGroupLength(groupRows))
	w, err := pqarrow.NewFileWriter(schema, file, props, pqarrow.NewArrowWriterProperties())
	if err != nil {
		return err
	}
	texts := make([]string, distinct)
	for i := range texts {
		texts[i] = strings.Repeat(fmt.Sprintf("%04x", i), rowText/4)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	text, okText := b.Field(0).(*array.StringBuilder)
	n, okN := b.Field(1).(*array.Int64Builder)
	if !okText || !okN {
		return errors.New("the schema's builders are others")
	}
	for row := int64(0); row < rows; {
		for range min(batchRows, rows-row) {
			text.Append(texts[row%distinct])
			n.Append(row % distinct)
			row++
		}
		batch := b.NewRecordBatch()
		err := w.WriteBuffered(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return w.Close() // and the file
}

// measure runs the command and watches its memory; peak is in KiB.
func measure(name string, args []string) (took time.Duration, peak int64, err error) {
	command := exec.CommandContext(context.Background(), name, args...)
	command.Stderr = os.Stderr
	begin := time.Now()
	if err := command.Start(); err != nil {
		return 0, 0, err
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case err := <-done:
			return time.Since(begin), peak, err
		case <-every.C:
			peak = max(peak, mostMemory(command.Process.Pid))
		}
	}
}

// mostMemory is a process's VmHWM in KiB; 0 once it is gone.
func mostMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kib, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return kib
}
