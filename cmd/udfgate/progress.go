package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"
)

const (
	progressEvery = 100 * time.Millisecond // between two lines
	progressWidth = 24                     // of the bar, in characters
)

// progress is a line on a terminal that says how far a call is.
type progress struct {
	w           io.Writer
	begin, last time.Time
	shown       bool
}

// newProgress is nil if w is no terminal: a log is no place for a bar.
func newProgress(w io.Writer) *progress {
	if !isTerminal(w) {
		return nil
	}
	now := time.Now()
	return &progress{w: w, begin: now, last: now}
}

func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// show draws the line anew, unless it has just done so. share is 0 where the
// size of the input is not known.
func (p *progress) show(rows int64, share float64) {
	now := time.Now()
	if now.Sub(p.last) < progressEvery {
		return
	}
	p.last, p.shown = now, true
	line := humanize.Comma(rows) + " rows  " + humanize.SIWithDigits(float64(rows)/now.Sub(p.begin).Seconds(), 1, "rows/s")
	if share > 0 {
		full := int(share * progressWidth)
		line = fmt.Sprintf("%s%s %3.0f %%  %s", strings.Repeat("█", full), strings.Repeat("░", progressWidth-full), 100*share, line)
	}
	// Nobody depends on the bar: what keeps it from being drawn is no error.
	_, _ = io.WriteString(p.w, "\r"+line+"\x1b[K")
}

// clear takes the line away, for what is printed next.
func (p *progress) clear() {
	if p != nil && p.shown {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
		p.shown = false
	}
}
