package arrowtype

import (
	"errors"
	"strings"
)

// ErrNoItems is behind the panic that arrow-go has for lists of a fixed size
// of 0. Other Arrow libraries have that type, so it is no damage.
var ErrNoItems = errors.New("a fixed_size_list of 0 items, which Arrow for Go does not have")

// Misread is ErrNoItems if that is what arrow-go's error about a schema means,
// and otherwise the error as it is.
func Misread(err error) error {
	if err != nil && strings.Contains(err.Error(), "arrow: invalid size") {
		return ErrNoItems
	}
	return err
}
