package tabular

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// Dates and times as ISO 8601, in the Gregorian calendar for all years, as
// Arrow counts them. Go's own parser takes other texts too and knows four digits of a
// year; Go's calendar is used within one cycle of it.
const (
	cycleYears = 400
	cycleDays  = 146097
	epochYear  = 1970
	secondsDay = 24 * 60 * 60
	// yearDigitsMax bounds the digits of a year: with more of them, its days
	// would not fit. Timestamps in seconds reach year 292,277,026,596.
	yearDigitsMax = 12
)

var (
	errSyntax    = errors.New("not of the form")
	errOffset    = errors.New("without an offset")
	errNoOffset  = errors.New("with an offset")
	errOutOfDate = errors.New("no day of the calendar")
)

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// appendDate appends the date of a day counted from 1970-01-01. Years of other
// than four digits have a sign, as ISO 8601 asks.
func appendDate(dst []byte, days int64) []byte {
	cycles := floorDiv(days, cycleDays)
	t := time.Unix((days-cycles*cycleDays)*secondsDay, 0).UTC()
	year := int64(t.Year()) + cycles*cycleYears
	switch {
	case year < 0:
		dst = append(dst, '-')
		year = -year
	case year > 9999:
		dst = append(dst, '+')
	}
	return fmt.Appendf(dst, "%04d-%02d-%02d", year, t.Month(), t.Day())
}

// appendClock appends seconds of a day and what of them a second has, in units.
// A time beyond its day is shown as what it is: no reader takes it.
func appendClock(dst []byte, seconds, rest int64, unit arrow.TimeUnit) []byte {
	dst = fmt.Appendf(dst, "%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
	return appendFraction(dst, rest, perSecond(unit))
}

// appendFraction appends rest/per, which is less than 1, without zeros at the end.
func appendFraction(dst []byte, rest, per int64) []byte {
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for rest > 0 {
		per /= 10
		dst = append(dst, byte('0'+rest/per))
		rest %= per
	}
	return dst
}

func appendTimeOfDay(dst []byte, v int64, unit arrow.TimeUnit) []byte {
	per := perSecond(unit)
	if v < 0 {
		dst = append(dst, '-')
		return appendClock(dst, -(v / per), -(v % per), unit)
	}
	return appendClock(dst, v/per, v%per, unit)
}

// appendTimestamp appends a timestamp. One with a zone is an instant, which is
// exact in UTC; the zone is the column's.
func appendTimestamp(dst []byte, v int64, t *arrow.TimestampType) []byte {
	per := perSecond(t.Unit)
	seconds := floorDiv(v, per)
	days := floorDiv(seconds, secondsDay)
	dst = append(appendDate(dst, days), 'T')
	dst = appendClock(dst, seconds-days*secondsDay, v-seconds*per, t.Unit)
	if t.TimeZone != "" {
		dst = append(dst, 'Z')
	}
	return dst
}

// cutDigits takes n digits off the front of text.
func cutDigits(text string, n int) (v int64, rest string, ok bool) {
	if len(text) < n {
		return 0, "", false
	}
	for _, c := range []byte(text[:n]) {
		if c < '0' || c > '9' {
			return 0, "", false
		}
		v = v*10 + int64(c-'0')
	}
	return v, text[n:], true
}

// cutPart takes a separator and two digits that are at most most.
func cutPart(text string, separator byte, most int64) (v int64, rest string, ok bool) {
	if text == "" || text[0] != separator {
		return 0, "", false
	}
	v, rest, ok = cutDigits(text[1:], 2)
	return v, rest, ok && v <= most
}

// cutDate takes a date off the front of text, as days since 1970-01-01.
func cutDate(text string) (days int64, rest string, err error) {
	sign, digits := int64(1), 4
	if text != "" && (text[0] == '-' || text[0] == '+') {
		if text[0] == '-' {
			sign = -1
		}
		text = text[1:]
		for digits < yearDigitsMax && digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
			digits++
		}
	}
	year, rest, ok := cutDigits(text, digits)
	if !ok {
		return 0, "", errSyntax
	}
	month, rest, ok := cutPart(rest, '-', 99)
	if !ok {
		return 0, "", errSyntax
	}
	day, rest, ok := cutPart(rest, '-', 99)
	if !ok {
		return 0, "", errSyntax
	}
	year *= sign
	cycles := floorDiv(year-epochYear, cycleYears)
	t := time.Date(int(year-cycles*cycleYears), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	if t.Month() != time.Month(month) || t.Day() != int(day) {
		return 0, "", errOutOfDate
	}
	return t.Unix()/secondsDay + cycles*cycleDays, rest, nil
}

// cutClock takes a time of day off the front of text: hours and minutes, then
// seconds and parts of them if they are there.
func cutClock(text string, unit arrow.TimeUnit) (seconds, parts int64, rest string, err error) {
	hour, rest, ok := cutDigits(text, 2)
	if !ok || hour > 23 {
		return 0, 0, "", errSyntax
	}
	minute, rest, ok := cutPart(rest, ':', 59)
	if !ok {
		return 0, 0, "", errSyntax
	}
	seconds = hour*3600 + minute*60
	if rest == "" || rest[0] != ':' {
		return seconds, 0, rest, nil
	}
	second, rest, ok := cutPart(rest, ':', 59)
	if !ok {
		return 0, 0, "", errSyntax
	}
	if rest == "" || rest[0] != '.' {
		return seconds + second, 0, rest, nil
	}
	end := 1
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	if end == 1 {
		return 0, 0, "", errSyntax
	}
	parts, err = fraction(rest[1:end], perSecond(unit))
	return seconds + second, parts, rest[end:], err
}

// fraction is digits after a point as a number of parts, per of which make one.
func fraction(digits string, per int64) (parts int64, err error) {
	digits = strings.TrimRight(digits, "0")
	for _, c := range []byte(digits) {
		if per /= 10; per == 0 {
			return 0, errNotExact
		}
		parts += int64(c-'0') * per
	}
	return parts, nil
}

// cutOffset takes the end of a timestamp that says how far its clock is ahead
// of UTC, in seconds.
func cutOffset(text string) (seconds int64, err error) {
	if text == "Z" || text == "z" {
		return 0, nil
	}
	if text == "" || text[0] != '+' && text[0] != '-' {
		return 0, errSyntax
	}
	hour, rest, ok := cutDigits(text[1:], 2)
	if !ok || hour > 23 {
		return 0, errSyntax
	}
	minute := int64(0)
	if rest != "" {
		if minute, rest, ok = cutDigits(strings.TrimPrefix(rest, ":"), 2); !ok || rest != "" || minute > 59 {
			return 0, errSyntax
		}
	}
	seconds = hour*3600 + minute*60
	if text[0] == '-' {
		seconds = -seconds
	}
	return seconds, nil
}

func parseDate(text string) (days int64, err error) {
	days, rest, err := cutDate(text)
	if err == nil && rest != "" {
		err = errSyntax
	}
	return days, err
}

func parseTime(text string, unit arrow.TimeUnit) (int64, error) {
	seconds, parts, rest, err := cutClock(text, unit)
	if err == nil && rest != "" {
		err = errSyntax
	}
	return seconds*perSecond(unit) + parts, err
}

// parseTimestamp reads a wall clock where the type has no zone, else an
// instant: a clock and its offset from UTC.
func parseTimestamp(text string, t *arrow.TimestampType) (int64, error) {
	days, rest, err := cutDate(text)
	if err != nil {
		return 0, err
	}
	if rest == "" || rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ' {
		return 0, errSyntax
	}
	seconds, parts, rest, err := cutClock(rest[1:], t.Unit)
	if err != nil {
		return 0, err
	}
	offset := int64(0)
	if rest != "" || t.TimeZone != "" {
		if rest == "" {
			return 0, errOffset
		}
		if offset, err = cutOffset(rest); err != nil {
			return 0, err
		}
		if t.TimeZone == "" {
			return 0, errNoOffset
		}
	}
	// At most 4e14 days: their seconds fit, those in smaller units need not.
	return timesPlus(days*secondsDay+seconds-offset, perSecond(t.Unit), parts)
}

// timesPlus is a·b + c, b and c not negative.
func timesPlus(a, b, c int64) (int64, error) {
	magnitude := uint64(a)
	if a < 0 {
		magnitude = -magnitude
	}
	high, low := bits.Mul64(magnitude, uint64(b))
	if a >= 0 {
		low, carry := bits.Add64(low, uint64(c), 0)
		if high+carry != 0 || low > math.MaxInt64 {
			return 0, strconv.ErrRange
		}
		return int64(low), nil
	}
	low, borrow := bits.Sub64(low, uint64(c), 0)
	if high -= borrow; high != 0 || low > 1<<63 {
		if high == math.MaxUint64 { // c is more: the sum is above zero
			return int64(-low), nil
		}
		return 0, strconv.ErrRange
	}
	return int64(-low), nil
}
