package limit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const forwardedFor = "X-Forwarded-For"

// mostHops bounds the proxies that a request may have come through.
const mostHops = 16

// ClientAddr is the address that a request came from, as far as it can be known: the
// connection's, or, where that is a trusted proxy, the last in X-Forwarded-For that
// is none. What stands before that one, anybody may have written. An entry that is
// no address ends the search at the proxy that passed it on. The answer is not valid
// if the connection has no address, as on a Unix socket.
func ClientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	addr, ok := parseAddr(r.RemoteAddr)
	if !ok || !within(trusted, addr) {
		return addr
	}
	hops := 0
	// Each proxy appends to the last line, or adds one.
	for _, line := range slices.Backward(r.Header.Values(forwardedFor)) {
		for more := true; more; hops++ {
			if hops == mostHops {
				return addr
			}
			var entry string
			line, entry, more = cutLast(line)
			next, ok := parseAddr(strings.Trim(entry, " \t"))
			if !ok {
				return addr
			}
			if addr = next; !within(trusted, addr) {
				return addr
			}
		}
	}
	return addr
}

// cutLast splits a list before its last entry.
func cutLast(list string) (rest, last string, more bool) {
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[:i], list[i+1:], true
	}
	return "", list, false
}

// parseAddr reads an address with or without a port, in brackets or not.
func parseAddr(s string) (netip.Addr, bool) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	a, err := netip.ParseAddr(bare)
	if err != nil {
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		a = ap.Addr()
	}
	return a.Unmap().WithZone(""), true
}

func within(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
