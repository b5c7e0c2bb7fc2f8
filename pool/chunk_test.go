package pool

import (
	"testing"

	"github.com/udfgate/udfgate"
)

// A batch that the body does not take does not cross.
func TestBatchRowsMax(t *testing.T) {
	h := newHarness(t, "")
	h.must("at_most", []int64{1, 2, 3})
	_, call, err := h.call("at_most", []int64{1, 2, 3, 4})
	e := wantError(t, err, udfgate.Invalid,
		"batch of 4 rows is over max_batch_rows 3; declare elementwise=True to have it cut, or send smaller batches")
	if e.Shape != udfgate.ShapeTooLarge || e.Function != "at_most" || call.Attempts != 0 {
		t.Errorf("got %+v, %d attempts", e, call.Attempts)
	}
	h.must("at_most_each", []int64{1, 2, 3, 4})
	h.must("at_most_rows", []int64{1, 2, 3, 4})
}
