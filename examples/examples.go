// Package examples carries the runnable examples, so that `udfgate demo` needs
// no checkout.
package examples

import "embed"

// Files holds the function files of this folder.
//
//go:embed *.py
var Files embed.FS
