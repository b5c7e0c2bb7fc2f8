package main

import (
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/clipperhouse/displaywidth"
)

// cellWidthMax cuts long values so that one of them cannot push the rest of
// the table off the screen.
const cellWidthMax = 48

// grid is a table of text for people.
type grid struct {
	head  []string
	right []bool // columns of numbers
	rows  [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// write prints the head, a rule and the rows; columns are two spaces apart.
func (g *grid) write(w io.Writer) error {
	width := make([]int, len(g.head))
	for _, row := range append([][]string{g.head}, g.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], displaywidth.String(cell))
		}
	}
	var out strings.Builder
	g.line(&out, width, g.head)
	rule := make([]string, len(width))
	for i, n := range width {
		rule[i] = strings.Repeat("─", n)
	}
	g.line(&out, width, rule)
	for _, row := range g.rows {
		g.line(&out, width, row)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (g *grid) line(out *strings.Builder, width []int, cells []string) {
	var line strings.Builder
	for i, cell := range cells {
		if i > 0 {
			line.WriteString("  ")
		}
		pad := strings.Repeat(" ", width[i]-displaywidth.String(cell))
		if i < len(g.right) && g.right[i] {
			line.WriteString(pad + cell)
		} else {
			line.WriteString(cell + pad)
		}
	}
	out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// printable is text as a table shows it: on one line, cut to cellWidthMax, and
// without what a terminal would obey.
func printable(text string) string {
	return displaywidth.TruncateString(printableWhole(text), cellWidthMax, "…")
}

// printableWhole is printable without the cut.
func printableWhole(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	q := strconv.Quote(text)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
