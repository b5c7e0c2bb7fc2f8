// Package tabular reads files of rows (Parquet, Arrow, JSONL, CSV, JSON) into
// record batches of given types, writes such files, and turns values into text.
// The types of arguments always come from the caller, never from a guess at the
// data. It knows no gateway.
package tabular

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// BatchBytesMax ends a batch early, however few rows it has: text of any
// length must not make a batch that no gateway would take.
const BatchBytesMax = 8 << 20

// Rows is a batch of a file's rows.
type Rows struct {
	// Args has one column per field asked for, in the fields' order and types.
	Args arrow.RecordBatch
	// Input has all columns of the file, in its order and types; nil unless
	// KeepColumns was asked for.
	Input arrow.RecordBatch
	// Text has every row as it stands in the file, without its end of line; nil
	// unless KeepText was asked for.
	Text *array.Binary
	// Share is how much of the file is read so far, from 0 to 1; 0 if its size
	// is not known.
	Share float64
}

// Len counts the rows.
func (r *Rows) Len() int64 { return r.Args.NumRows() }

// Release gives all columns back.
func (r *Rows) Release() {
	r.Args.Release()
	if r.Input != nil {
		r.Input.Release()
	}
	if r.Text != nil {
		r.Text.Release()
	}
}

// Source is rows that come in batches.
type Source interface {
	// Next returns up to rowsMax rows, at least one, or io.EOF. The rows are
	// the caller's to release. Another error names the place in the input.
	Next(rowsMax int) (*Rows, error)
	// Kept is the schema of Rows.Input, or the names of the columns in
	// Rows.Text; nil if nothing is kept, or rows as text have no fixed columns.
	Kept() *arrow.Schema
	// Note is a sentence for the user if the columns are taken by position
	// although their names say something else; empty if not.
	Note() string
}

// Keep says what else of a file's rows is wanted beside the arguments.
type Keep int

// What can be kept.
const (
	KeepNothing Keep = iota
	KeepColumns      // Rows.Input
	KeepText         // Rows.Text; of CSV and JSONL only
)

// Options say how a file's columns become the fields.
type Options struct {
	// Columns names the columns to take, one per field, in the fields' order.
	// Empty: the columns of the fields' names if all are there, else the first
	// ones by position (JSON objects have no positions).
	Columns []string
	// Null is a further spelling of null in CSV, besides the empty field.
	Null string
	// File is the name of the file: one that ends in .gz has to be gzip, another
	// must not be. Without a name the first bytes decide.
	File string
	// Size is the file's in bytes, as far as it is known: it makes Rows.Share.
	Size int64
	// Keep asks for more than the arguments.
	Keep Keep
	// Adds are the names of columns that an output adds to those kept. A file
	// that has one of them already is refused.
	Adds []string
}

// CellError says where in the input a value does not fit its column.
type CellError struct {
	Where  string // "row 1" or "line 3"
	Column string // `column 2 "b"`; empty if the whole row is at fault
	Err    error

	number int64 // the row + 1; 0 where Where does not count rows from 0
}

// Row is the row that Where names, counted from 0; false where it names a line.
func (e *CellError) Row() (row int64, known bool) { return e.number - 1, e.number > 0 }

// Error is `line 3, column 2 "b": wanted int64, got "abc"`.
func (e *CellError) Error() string {
	s := e.Where
	if e.Column != "" {
		s += ", " + e.Column
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns what is wrong with the value.
func (e *CellError) Unwrap() error { return e.Err }

// columnAt is how errors name a column: by number and name. In files it is
// counted from 1 as editors do, in JSON from 0 like its row.
func columnAt(number int, name string) string {
	return fmt.Sprintf("column %d %q", number, name)
}
