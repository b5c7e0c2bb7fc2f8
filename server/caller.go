package server

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/udfgate/udfgate"
	"google.golang.org/grpc/metadata"
)

var _ udfgate.Caller = (*exchange)(nil)

// Headers implements udfgate.Caller: it reads the request's metadata anew, so
// that calls whose bodies do not ask pay nothing. Keys are in alphabetical
// order, as gRPC does not keep that in which they were sent; the values of one
// are in theirs.
func (x *exchange) Headers() []udfgate.KeyValue {
	md, _ := metadata.FromIncomingContext(x.ctx)
	var all []udfgate.KeyValue
	for _, key := range slices.Sorted(maps.Keys(md)) {
		if withheld(key) {
			continue
		}
		for _, value := range md[key] {
			if strings.HasSuffix(key, "-bin") { // gRPC has decoded it, and a body gets text
				value = base64.StdEncoding.EncodeToString([]byte(value))
			}
			all = append(all, udfgate.KeyValue{Key: key, Value: value})
		}
	}
	return all
}

// withheld says that a header is not for bodies: credentials, what belongs to a
// connection or to the form of the message, and what is meant for the gateway.
func withheld(key string) bool {
	switch key {
	case "authorization", "proxy-authorization", "cookie",
		"te", "trailer", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "upgrade",
		"content-type", "content-length", "content-encoding":
		return true
	}
	return strings.HasPrefix(key, ":") || strings.HasPrefix(key, "grpc-") || strings.HasPrefix(key, "udfgate-")
}
