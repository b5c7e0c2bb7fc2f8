package codec

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValidText(t *testing.T) {
	r := testRand(t)
	parts := []string{"a", "plain ascii", "é", "漢字", "😀", "\xed\xa0\x80", "\xc3", "\x80", "\xf4\x90\x80\x80", "\xef\xbf\xbd", "\xe2\x82"}
	for range 20000 {
		var s strings.Builder
		good := 5 + r.IntN(2)*(len(parts)-5)
		for range r.IntN(12) {
			s.WriteString(parts[r.IntN(good)])
		}
		if got, want := validText([]byte(s.String())), utf8.ValidString(s.String()); got != want {
			t.Fatalf("%q: got %v, wanted %v", s.String(), got, want)
		}
	}
}

// Every first and second byte, with third and fourth around the continuations.
func TestCharacterLen(t *testing.T) {
	edges := []byte{0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff}
	for first := 0x80; first < 0x100; first++ {
		for second := range 0x100 {
			for _, third := range edges {
				for _, fourth := range edges {
					b := []byte{byte(first), byte(second), third, fourth}
					r, want := utf8.DecodeRune(b)
					if r == utf8.RuneError && want == 1 {
						want = 0
					}
					if got := characterLen(binary.LittleEndian.Uint32(b)); got != want {
						t.Fatalf("%x: got %d, wanted %d", b, got, want)
					}
				}
			}
		}
	}
}

func BenchmarkValidText(b *testing.B) {
	for name, unit := range map[string]string{
		"one in 18":  "seventeen letters" + "ß",
		"all 3-byte": "漢字かな交じり文",
		"mixed":      "Müßiggang ist aller Laster Anfang, ",
	} {
		text := []byte(strings.Repeat(unit, 1<<16/len(unit)))
		b.Run(name+"/floor=utf8.Valid", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				utf8.Valid(text)
			}
		})
		b.Run(name+"/validText", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				validText(text)
			}
		})
	}
}
