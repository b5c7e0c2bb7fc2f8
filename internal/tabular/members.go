package tabular

import (
	"bytes"
	"encoding/json"
)

// member is one of an object's, as it stands in the line.
type member struct {
	name  string
	value json.RawMessage
}

// membersFew is up to how many members are compared one by one, which is
// quicker than a map.
const membersFew = 16

// finder finds an object's members by name, in time that grows with their
// number and not with its square: a line may have millions.
type finder struct {
	members []member
	byName  map[string]int // nil if there are few
	room    map[string]int // what byName is made in
}

// over takes the members of the next object; false and a name that is there
// twice otherwise.
func (f *finder) over(members []member) (twice string, ok bool) {
	f.members, f.byName = members, nil
	if len(members) <= membersFew {
		for i, m := range members {
			if f.at(m.name) < i {
				return m.name, false
			}
		}
		return "", true
	}
	if f.room == nil {
		f.room = map[string]int{}
	}
	clear(f.room)
	f.byName = f.room
	for i, m := range members {
		if _, twice := f.byName[m.name]; twice {
			return m.name, false
		}
		f.byName[m.name] = i
	}
	return "", true
}

// at is the number of the member of that name, -1 if there is none.
func (f *finder) at(name string) int {
	if f.byName != nil {
		if i, ok := f.byName[name]; ok {
			return i
		}
		return -1
	}
	for i, m := range f.members {
		if m.name == name {
			return i
		}
	}
	return -1
}

// splitMembers appends what is in an object or array that is valid JSON; an
// array's have no names. Other text has none.
func splitMembers(line []byte, to []member) []member {
	s := splitter{text: bytes.TrimSpace(line)}
	if len(s.text) == 0 || s.text[0] != '{' && s.text[0] != '[' {
		return to
	}
	object := s.text[0] == '{'
	s.at = 1
	for s.more() {
		var m member
		if object {
			m.name = memberName(s.value())
			s.more() // the colon
		}
		m.value = s.value()
		to = append(to, m)
	}
	return to
}

func memberName(quoted json.RawMessage) string {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // the line is valid; one that is not is refused later
	return name
}

// splitter walks over the values of one level.
type splitter struct {
	text []byte
	at   int
}

// more goes to the next value; false at the end of the object or array.
func (s *splitter) more() bool {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
		case '}', ']':
			return false
		default:
			return true
		}
	}
	return false
}

// value takes the value that begins here.
func (s *splitter) value() json.RawMessage {
	from, depth := s.at, 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.skipString()
			if depth == 0 {
				return s.text[from:s.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return s.text[from:s.at]
			}
			if depth--; depth == 0 {
				s.at++
				return s.text[from:s.at]
			}
		case ' ', '\t', '\r', '\n', ',', ':':
			if depth == 0 {
				return s.text[from:s.at]
			}
		}
		s.at++
	}
	return s.text[from:]
}

func (s *splitter) skipString() {
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at = min(s.at+1, len(s.text))
}
