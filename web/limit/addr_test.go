package limit

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48")}

func from(remote string, forwarded ...string) *http.Request {
	return &http.Request{RemoteAddr: remote, Header: http.Header{forwardedFor: forwarded}}
}

// TestClientAddr holds promise 8.
func TestClientAddr(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why       string
		remote    string
		forwarded []string
		want      string
	}{
		{"no proxy", "192.0.2.1:99", nil, "192.0.2.1"},
		{"no proxy, and the client makes one up", "192.0.2.1:99", []string{"198.51.100.1"}, "192.0.2.1"},
		{"a proxy that says nothing", "10.0.0.1:99", nil, "10.0.0.1"},
		{"a proxy", "10.0.0.1:99", []string{"192.0.2.1"}, "192.0.2.1"},
		{"a proxy behind a proxy", "10.0.0.1:99", []string{"192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"a client's own words stand on the left", "10.0.0.1:99", []string{"127.0.0.1, 10.9.9.9, 192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"a line for each proxy", "10.0.0.1:99", []string{"127.0.0.1", "192.0.2.1", "10.0.0.2"}, "192.0.2.1"},
		{"proxies only", "10.0.0.1:99", []string{"10.0.0.3,10.0.0.2"}, "10.0.0.3"},
		{"no address in front of us", "10.0.0.1:99", []string{"192.0.2.1, unknown"}, "10.0.0.1"},
		{"no address behind a proxy", "10.0.0.1:99", []string{"192.0.2.1, _hidden, 10.0.0.2"}, "10.0.0.2"},
		{"an empty entry", "10.0.0.1:99", []string{"192.0.2.1,"}, "10.0.0.1"},
		{"an empty line", "10.0.0.1:99", []string{""}, "10.0.0.1"},
		{"ports", "10.0.0.1:99", []string{"192.0.2.1:1234"}, "192.0.2.1"},
		{"IPv6", "[2001:db8::1]:99", nil, "2001:db8::1"},
		{"IPv6 behind a proxy", "[2001:db8:ffff::1]:99", []string{"2001:db8::1"}, "2001:db8::1"},
		{"IPv6 in brackets", "10.0.0.1:99", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"IPv6 with a port", "10.0.0.1:99", []string{" [2001:db8::1]:1234\t"}, "2001:db8::1"},
		{"half a bracket", "10.0.0.1:99", []string{"[192.0.2.1"}, "10.0.0.1"},
		{"IPv4 as IPv6", "[::ffff:10.0.0.1]:99", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{"a zone is no other address", "10.0.0.1:99", []string{"fe80::1%eth0"}, "fe80::1"},
		{"too many proxies", "10.0.0.1:99", []string{"192.0.2.1" + strings.Repeat(",10.0.0.2", mostHops)}, "10.0.0.2"},
		{"as many as may be", "10.0.0.1:99", []string{"192.0.2.1" + strings.Repeat(",10.0.0.2", mostHops-1)}, "192.0.2.1"},
	} {
		require.Equal(t, netip.MustParseAddr(c.want), ClientAddr(from(c.remote, c.forwarded...), proxies), c.why)
	}
	require.False(t, ClientAddr(from("@", "192.0.2.1"), proxies).IsValid())
	require.Equal(t, netip.MustParseAddr("10.0.0.1"), ClientAddr(from("10.0.0.1:99", "192.0.2.1"), nil), "nobody is trusted by default")
}

// FuzzClientAddr holds promise 8 for whatever a client writes.
func FuzzClientAddr(f *testing.F) {
	f.Add("192.0.2.1", "198.51.100.2")
	f.Add("10.0.0.3, unknown, ,", "::1")
	f.Add("[::1]:80,\"x\"\r\n", "2001:db8::1%lo")
	f.Add(strings.Repeat(",", 5000), "fe80::1")
	f.Fuzz(func(t *testing.T, written, real string) {
		direct := from("192.0.2.1:99", written)
		require.Equal(t, "192.0.2.1", ClientAddr(direct, proxies).String(), "no proxy, no belief")

		behind := ClientAddr(from("10.0.0.1:99", written), proxies)
		require.True(t, behind.IsValid())
		require.False(t, behind.Is4In6())
		require.Empty(t, behind.Zone())

		client, err := netip.ParseAddr(real)
		if err != nil {
			return
		}
		client = client.Unmap().WithZone("")
		if within(proxies, client) {
			return
		}
		if strings.ContainsAny(real, ", \t") {
			return // a zone may hold anything, and no proxy writes one
		}
		for _, lines := range [][]string{{written + "," + real}, {written, real}, {written, real + ", 10.0.0.2"}} {
			require.Equal(t, client, ClientAddr(from("10.0.0.1:99", lines...), proxies), "%q", lines)
		}
	})
}
