package tabular

import (
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// span is an ISO 8601 duration: P1Y2M3W4DT5H6M7.5S. Its parts are not the same
// everywhere (a month has no fixed length, a day some hours), so that which of
// them a type has is the reader's affair. Each may have a sign of its own, as
// Java writes them, and all of them one before the P.
type span struct {
	months, days int64
	hasMonths    bool // some part counts months, be it zero of them
	hasDays      bool
	hasClock     bool
	clock        int64 // hours, minutes and seconds, in units
}

// parseSpan reads a duration whose clock parts are counted in units, per of
// which make a second.
func parseSpan(text string, per int64) (s span, err error) {
	sign := int64(1)
	if text != "" && (text[0] == '-' || text[0] == '+') {
		if text[0] == '-' {
			sign = -1
		}
		text = text[1:]
	}
	if len(text) < 2 || text[0] != 'P' {
		return s, errSyntax
	}
	text = text[1:]
	clock, order := false, byte(0)
	for text != "" {
		if text[0] == 'T' && !clock {
			clock, order, text = true, 0, text[1:]
			if text == "" {
				return s, errSyntax
			}
		}
		var p part
		if p, text, err = cutSpanPart(text); err != nil {
			return s, err
		}
		rank := spanRank(p.letter, clock)
		if rank <= order {
			return s, errSyntax
		}
		order = rank
		if p.negative != (sign < 0) {
			err = s.add(p, clock, -1, per)
		} else {
			err = s.add(p, clock, 1, per)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// spanRank is the place of a part among its kind, 0 if it has none there.
func spanRank(letter byte, clock bool) byte {
	letters := "YMWD"
	if clock {
		letters = "HMS"
	}
	for i := range letters {
		if letters[i] == letter {
			return byte(i + 1)
		}
	}
	return 0
}

// part is a number with a letter.
type part struct {
	negative bool
	whole    string
	fraction string // of seconds alone
	letter   byte
}

func cutSpanPart(text string) (p part, rest string, err error) {
	if text[0] == '-' || text[0] == '+' {
		p.negative, text = text[0] == '-', text[1:]
	}
	digits := func() string {
		end := 0
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		taken := text[:end]
		text = text[end:]
		return taken
	}
	p.whole = digits()
	if p.whole == "" || text == "" {
		return p, "", errSyntax
	}
	if text[0] == '.' {
		text = text[1:]
		if p.fraction = digits(); p.fraction == "" || text == "" || text[0] != 'S' {
			return p, "", errSyntax
		}
	}
	p.letter = text[0]
	return p, text[1:], nil
}

// add adds a part to what it counts.
func (s *span) add(p part, clock bool, sign, per int64) error {
	if sign < 0 { // the least number has no positive counterpart
		p.whole = "-" + p.whole
	}
	whole, err := strconv.ParseInt(p.whole, 10, 64)
	if err != nil {
		return strconv.ErrRange // it is all digits
	}
	parts, err := fraction(p.fraction, per)
	if err != nil {
		return err
	}
	to, factor := &s.clock, per
	switch {
	case clock && p.letter == 'H':
		factor *= 3600
	case clock && p.letter == 'M':
		factor *= 60
	case clock:
	case p.letter == 'Y':
		to, factor = &s.months, 12
	case p.letter == 'M':
		to, factor = &s.months, 1
	case p.letter == 'W':
		to, factor = &s.days, 7
	default:
		to, factor = &s.days, 1
	}
	s.hasMonths, s.hasDays, s.hasClock = s.hasMonths || to == &s.months, s.hasDays || to == &s.days, s.hasClock || clock
	if *to, err = plusTimes(*to, whole, factor); err == nil {
		*to, err = plusTimes(*to, sign*parts, 1)
	}
	return err
}

// plusTimes is sum + a·b.
func plusTimes(sum, a, b int64) (int64, error) {
	product, err := timesPlus(a, b, 0)
	if err != nil || product > 0 && sum > math.MaxInt64-product || product < 0 && sum < math.MinInt64-product {
		return 0, strconv.ErrRange
	}
	return sum + product, nil
}

// parseDuration reads a duration: days are those of 24 hours, and months have
// no length.
func parseDuration(text string, unit arrow.TimeUnit) (int64, error) {
	s, err := parseSpan(text, perSecond(unit))
	if err != nil {
		return 0, err
	}
	if s.hasMonths {
		return 0, errSyntax
	}
	day := secondsDay * perSecond(unit)
	return plusTimes(s.clock, s.days, day)
}

// small is a number as 32 bits.
func small(v int64) (int32, error) {
	if v < math.MinInt32 || v > math.MaxInt32 {
		return 0, strconv.ErrRange
	}
	return int32(v), nil
}

func parseMonths(text string) (arrow.MonthInterval, error) {
	s, err := parseSpan(text, 1)
	if err == nil && (s.hasDays || s.hasClock) {
		err = errSyntax
	}
	if err != nil {
		return 0, err
	}
	months, err := small(s.months)
	return arrow.MonthInterval(months), err
}

func parseDayTime(text string) (v arrow.DayTimeInterval, err error) {
	s, err := parseSpan(text, perSecond(arrow.Millisecond))
	if err == nil && s.hasMonths {
		err = errSyntax
	}
	if err != nil {
		return v, err
	}
	if v.Days, err = small(s.days); err == nil {
		v.Milliseconds, err = small(s.clock)
	}
	return v, err
}

func parseMonthDayNano(text string) (v arrow.MonthDayNanoInterval, err error) {
	s, err := parseSpan(text, perSecond(arrow.Nanosecond))
	if err != nil {
		return v, err
	}
	if v.Months, err = small(s.months); err == nil {
		v.Days, err = small(s.days)
	}
	v.Nanoseconds = s.clock
	return v, err
}

// appendSpan appends the parts that are not zero; clock is counted in units.
func appendSpan(dst []byte, months, days, clock int64, unit arrow.TimeUnit) []byte {
	dst = append(dst, 'P')
	if months != 0 {
		dst = append(strconv.AppendInt(dst, months, 10), 'M')
	}
	if days != 0 {
		dst = append(strconv.AppendInt(dst, days, 10), 'D')
	}
	if clock != 0 || months == 0 && days == 0 {
		dst = append(append(append(dst, 'T'), seconds(clock, unit)...), 'S')
	}
	return dst
}
