package main

import (
	"fmt"
	"strings"
)

// debugVariable switches parts of the gateway off for measurements, as GODEBUG
// does for Go. No flag has it: nobody should run a service like that.
const debugVariable = "UDFGATE_DEBUG"

// debugSettings is what debugVariable says.
type debugSettings struct {
	text          string // as given
	billOff       bool   // no bills are made
	privateArenas bool   // batches go through the workers' sockets
}

// debugNames are the names that debugVariable takes, with their values, the
// usual one first.
var debugNames = map[string][2]string{
	"bill":   {"on", "off"},
	"arenas": {"shared", "private"},
}

// parseDebug reads "bill=off,arenas=private".
func parseDebug(text string) (debugSettings, error) {
	d := debugSettings{text: text}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if name == "" && value == "" {
			continue
		}
		values, ok := debugNames[name]
		if !ok {
			known := []string{}
			for name := range debugNames {
				known = append(known, name)
			}
			return debugSettings{}, usage(debugVariable, fmt.Errorf("unknown name %q%s", name, near(name, known)), "")
		}
		if value != values[0] && value != values[1] {
			return debugSettings{}, usage(debugVariable, fmt.Errorf("%s: wanted %s or %s, got %q", name, values[0], values[1], value), "")
		}
		switch unusual := value == values[1]; name {
		case "bill":
			d.billOff = unusual
		case "arenas":
			d.privateArenas = unusual
		}
	}
	return d, nil
}
