package main

import (
	"errors"
	"io"
)

// errLetGo is what a reader of an input gets that nobody waits for any more.
var errLetGo = errors.New("the input is no longer read")

// letGo makes a reader whose waiting for r ends when stop is called. A terminal
// or a pipe that says nothing can be waited for forever otherwise: closing it
// does not wake who reads. The goroutine that copies stays until r has
// something more to say, or the process ends.
func letGo(r io.Reader) (in io.Reader, stop func()) {
	in, out := io.Pipe()
	go func() {
		_, err := io.Copy(out, r)
		_ = out.CloseWithError(err) // never fails; nil is io.EOF
	}()
	return in, func() { _ = out.CloseWithError(errLetGo) }
}
