package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// nearWordsMax bounds what is compared, so that a long wrong word costs little.
const nearWordsMax = 256

// near is what an error about an unknown word ends in: the nearest of those
// that are known, as a question while it is near enough to be meant.
func near(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	folded := []rune(fold(word))
	folded = folded[:min(len(folded), nearWordsMax)]
	distance := func(k string) int { return levenshtein.ComputeDistance(string(folded), fold(k)) }
	sorted := slices.Sorted(slices.Values(known))
	best := slices.MinFunc(sorted, func(a, b string) int { return distance(a) - distance(b) })
	if distance(best) <= max(2, len(folded)/3) {
		return fmt.Sprintf(", did you mean %q?", best)
	}
	return fmt.Sprintf(", the nearest is %q", best)
}
