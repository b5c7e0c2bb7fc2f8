package pool

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// goTelling are the functions that ask who calls, that count, and those with
// bounds of their own.
var goTelling = []goBody{
	{name: "who", args: []string{"utf8"}, result: "utf8", run: func(args []any) (any, *goRaise) {
		answer, err := goAsk(1)
		if err != nil {
			return nil, &goRaise{1, "OSError", err.Error(), ""}
		}
		text := fmt.Sprintf("%v/%v %v cancelled=%v cut=%v", answer["stream"], answer["batch"], answer["principal"], answer["cancelled"], answer["cut"] != nil)
		headers, _ := answer["headers"].([]any)
		for _, h := range headers {
			if pair, ok := h.([]any); ok && pair[0] == args[0] {
				text += fmt.Sprintf(" %v", pair[1])
			}
		}
		return text, nil
	}},
	// until_gone runs until nobody waits any more.
	{name: "until_gone", args: one, result: "int64", run: func([]any) (any, *goRaise) {
		what := uint32(1)
		for n := int64(1); ; n++ {
			answer, err := goAsk(what)
			what = 2
			if err != nil {
				return nil, &goRaise{1, "OSError", err.Error(), ""}
			}
			if answer["cancelled"] == true {
				return n, nil
			}
		}
	}},
	{name: "table_who", args: one, result: "utf8", partRows: 1, table: func(_ []any, yield func(v any) bool) *goRaise {
		for range 2 {
			answer, err := goAsk(1)
			if err != nil {
				return &goRaise{1, "OSError", err.Error(), ""}
			}
			if !yield(fmt.Sprint(answer["principal"])) {
				return nil
			}
		}
		return nil
	}},
	// tally counts each value once, and raises over 7.
	{name: "tally", args: one, result: "int64", run: func(args []any) (any, *goRaise) {
		n, _ := args[0].(int64)
		goCount("n_"+fmt.Sprint(n), 1)
		goCount("all", n)
		if n == 7 {
			return nil, badLiteral()
		}
		return n, nil
	}},
	oddCounts("counts_name", `{"9lives":1}`),
	oddCounts("counts_long", `{"`+strings.Repeat("x", counterNameMax+1)+`":1}`),
	oddCounts("counts_empty", `{"":1}`),
	oddCounts("counts_zero", `{"a":0}`),
	oddCounts("counts_large", `{"a":9007199254740993}`),
	oddCounts("counts_fraction", `{"a":1.5}`),
	oddCounts("counts_list", `["a"]`),
	odd("context_what", func(w *goWorker, c *goCall) error { return w.send(19, 0, c.id, le.AppendUint32(nil, 9)) }),
	odd("context_short", func(w *goWorker, c *goCall) error { return w.send(19, 0, c.id, []byte{1}) }),
	odd("context_call", func(w *goWorker, c *goCall) error { return w.send(19, 0, c.id+1, le.AppendUint32(nil, 1)) }),
	{name: "alone", args: one, result: "int64", run: alone, more: map[string]any{"concurrency": 1}},
	{name: "alone_briefly", args: one, result: "int64", run: alone, more: map[string]any{"concurrency": 1, "concurrency_wait_ns": 30 * time.Millisecond.Nanoseconds()}},
	{name: "table_alone", args: one, result: "int64", partRows: 1, table: upTo, more: map[string]any{"concurrency": 1}},
	{name: "at_most", args: one, result: "int64", list: listFail, more: map[string]any{"max_batch_rows": 3}},
	{name: "at_most_each", args: one, result: "int64", list: listFail, elementwise: true, more: map[string]any{"max_batch_rows": 3}},
	{name: "at_most_rows", args: one, result: "int64", run: same, more: map[string]any{"max_batch_rows": 3}},
}

// alone raises if it runs in two workers at once. For 1 it waits until the test
// makes the file "release" in the workers' home.
func alone(args []any) (any, *goRaise) {
	home := os.Getenv("HOME")
	mark, err := os.OpenFile(home+"/alone", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, &goRaise{1, "RuntimeError", "not alone", ""}
	}
	defer os.Remove(mark.Name())
	defer mark.Close()
	for args[0] == int64(1) {
		if _, err := os.Stat(home + "/release"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return args[0], nil
}

// oddCounts sends a COUNTS that is none, and a good RESULT.
func oddCounts(name, text string) goBody {
	return odd(name, func(w *goWorker, c *goCall) error {
		if err := w.send(20, 1<<15, c.id, []byte(text)); err != nil {
			return err
		}
		r, err := w.answer(c)
		if err != nil {
			return err
		}
		return w.reply(c, r)
	})
}
