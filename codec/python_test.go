package codec

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"os/exec"
	"testing"
)

// pythonProgram answers requests of one byte (what) and u32 length: L loads
// marshal bytes and answers JSON, D dumps a list given as JSON, E runs an
// expression and dumps its value, 2 does so in version 2, and X loads marshal
// bytes and answers the expression of what it got. JSON holds text as {"t": …},
// bytes as {"b": hex} and null; expressions are those of expressionOf.
const pythonProgram = `
import functools, json, marshal, struct, sys
inp, out = sys.stdin.buffer, sys.stdout.buffer
def show(v):
    if isinstance(v, str): return {"t": v}
    if isinstance(v, bytes): return {"b": v.hex()}
    assert v is None, v
    return v
def value(v):
    if v is None: return v
    return v["t"] if "t" in v else bytes.fromhex(v["b"])
# Equal ones are one object, to which marshal of version 4 refers back.
@functools.cache
def S(h): return bytes.fromhex(h).decode()
@functools.cache
def F(h): return struct.unpack(">d", bytes.fromhex(h))[0]
B = functools.cache(bytes.fromhex)
def write(v):
    if isinstance(v, str): return "S('" + v.encode().hex() + "')"
    if isinstance(v, bytes): return "B('" + v.hex() + "')"
    if isinstance(v, float): return "F('" + struct.pack(">d", v).hex() + "')"
    if isinstance(v, list): return "[" + "".join(write(i) + "," for i in v) + "]"
    if isinstance(v, tuple): return "(" + "".join(write(i) + "," for i in v) + ")"
    if isinstance(v, dict): return "{" + "".join(write(k) + ":" + write(i) + "," for k, i in v.items()) + "}"
    assert v is None or isinstance(v, (bool, int)), v
    return str(v)
while True:
    head = inp.read(5)
    if not head: break
    data = inp.read(struct.unpack("<I", head[1:])[0])
    if head[:1] == b"L":
        answer = json.dumps([show(v) for v in marshal.loads(data)]).encode()
    elif head[:1] == b"D":
        answer = marshal.dumps([value(v) for v in json.loads(data)], 4)
    elif head[:1] == b"X":
        answer = write(marshal.loads(data)).encode()
    else:
        answer = marshal.dumps(eval(data.decode()), 2 if head[:1] == b"2" else 4)
    out.write(struct.pack("<I", len(answer)) + answer)
    out.flush()
`

// cpython is a real interpreter, the judge of what marshal bytes mean.
type cpython struct {
	t   testing.TB
	in  io.Writer
	out *bufio.Reader
}

func startPython(t testing.TB) *cpython {
	t.Helper()
	cmd := exec.Command("python3", "-I", "-S", "-c", pythonProgram)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("python3, which the tests need beside Go: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("python3: %v\n%s", err, stderr.Bytes())
		}
	})
	return &cpython{t: t, in: in, out: bufio.NewReader(out)}
}

func (p *cpython) ask(what byte, data []byte) []byte {
	p.t.Helper()
	request := binary.LittleEndian.AppendUint32([]byte{what}, uint32(len(data)))
	if _, err := p.in.Write(append(request, data...)); err != nil {
		p.t.Fatal(err)
	}
	var head [4]byte
	if _, err := io.ReadFull(p.out, head[:]); err != nil {
		p.t.Fatal(err)
	}
	answer := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p.out, answer); err != nil {
		p.t.Fatal(err)
	}
	return answer
}

// pyValue is a value as pythonProgram's JSON has it.
type pyValue struct {
	T *string `json:"t,omitempty"`
	B *hexed  `json:"b,omitempty"`
}

type hexed []byte

func (h hexed) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

func (h *hexed) UnmarshalText(text []byte) (err error) {
	*h, err = hex.AppendDecode(nil, text)
	return err
}

// loads is marshal.loads.
func (p *cpython) loads(block []byte) testColumn {
	p.t.Helper()
	var values []*pyValue
	if err := json.Unmarshal(p.ask('L', block), &values); err != nil {
		p.t.Fatal(err)
	}
	col := make(testColumn, len(values))
	for i, v := range values {
		switch {
		case v == nil:
		case v.T != nil:
			col[i] = *v.T
		default:
			col[i] = append([]byte{}, *v.B...)
		}
	}
	return col
}

// dumps is marshal.dumps(list, 4) of fresh objects.
func (p *cpython) dumps(col testColumn) []byte {
	p.t.Helper()
	values := make([]*pyValue, len(col))
	for i, v := range col {
		switch v := v.(type) {
		case string:
			values[i] = &pyValue{T: &v}
		case []byte:
			h := hexed(v)
			values[i] = &pyValue{B: &h}
		}
	}
	data, err := json.Marshal(values)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.ask('D', data)
}

// eval is marshal.dumps(eval(expression), 4).
func (p *cpython) eval(expression string) []byte {
	p.t.Helper()
	return p.ask('E', []byte(expression))
}
