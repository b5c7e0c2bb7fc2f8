package main

import (
	"fmt"
	"math"
	"reflect"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"
)

// size is a number of bytes, written 268435456, 256MiB or 1GB.
type size int64

var sizeType = reflect.TypeFor[size]()

// decodeSize is a kong mapper. 1GiB and 1GB mean different things, as they do
// everywhere else.
func decodeSize(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("size", &text); err != nil {
		return err
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return fmt.Errorf("wanted a size such as 256MiB, got %q", text)
	}
	target.SetInt(int64(n))
	return nil
}

// bytesText is how sizes are printed: in the units that flags take.
func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
