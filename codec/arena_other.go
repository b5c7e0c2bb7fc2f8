//go:build !linux

package codec

// SharedArenas says that memory can be shared with processes that are not
// trusted with it. It cannot here: there are no sealed memory files, and a
// worker could cut an unsealed one short under the gateway's hands. Every arena
// is private.
const SharedArenas = false

func sharedMapping(_ Role, size int64) (mapping, error) { return privateMapping(size) }
