package limit

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestParseRules(t *testing.T) {
	t.Parallel()
	r, err := ParseRules(waitroom.LimitSettings{Address: "off", Booking: "7/90s"})
	require.NoError(t, err)
	require.Equal(t, Rules{
		Person: per(60, time.Minute), PersonBurst: per(5, time.Second),
		Booking: per(7, 90*time.Second), Issue: per(3, 10*time.Second), Guesses: per(10, time.Minute),
	}, r)

	_, err = ParseRules(waitroom.LimitSettings{Person: "x", Issue: "0/1s"})
	invalid, ok := errors.AsType[*waitroom.InvalidError](err)
	require.True(t, ok, "got %v", err)
	require.Equal(t, []string{"limits.person", "limits.issue"}, []string{invalid.Fields[0].Field, invalid.Fields[1].Field})
	require.Len(t, invalid.Fields, 2)
}

// TestPlan is the table of the package's comment.
func TestPlan(t *testing.T) {
	t.Parallel()
	for call, want := range map[Call][]string{
		Browse: {WhichPerson, WhichPersonBurst}, Poll: {WhichPerson, WhichPersonBurst}, Join: {WhichPerson, WhichPersonBurst},
		"odd": {WhichPerson, WhichPersonBurst}, Booking: {WhichBooking}, Issue: {WhichIssue},
	} {
		var known []string
		for _, c := range plan(Request{Event: "e", Call: call, Person: "p", Addr: office}, hourly) {
			require.Equal(t, bucket{event: "e", which: c.bucket.which, person: "p"}, c.bucket, "a person is counted wherever they are")
			known = append(known, c.bucket.which)
		}
		require.Equal(t, want, known, call)
		stranger := Request{Event: "e", Call: call, Addr: office, Challenge: true}
		require.Equal(t, []charge{{bucket{event: "e", which: WhichAddress, addr: office}, hourly.Address}}, plan(stranger, hourly))
		stranger.Challenge = false
		if call == Join || call == Issue {
			require.Equal(t, []charge{{bucket{event: "e", which: WhichOffice, addr: office}, per(10, 5*time.Minute)}}, plan(stranger, hourly))
			require.Empty(t, plan(stranger, Rules{}))
		} else {
			require.Equal(t, []charge{{bucket{event: "e", which: WhichAddress, addr: office}, hourly.Address}}, plan(stranger, hourly))
		}
		stranger.Cleared = true
		require.Empty(t, plan(stranger, hourly))
		require.Empty(t, plan(Request{Event: "e", Call: call, Person: "p"}, Rules{}), "off is no charge")
	}
}

func TestHousehold(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2::": "2001:db8:1:2::", "2001:db8:1:3::1": "2001:db8:1:3::",
		"fe80::1%eth0": "fe80::",
	} {
		require.Equal(t, netip.MustParseAddr(want), Household(netip.MustParseAddr(in)), in)
	}
	require.Equal(t, netip.Addr{}, Household(netip.Addr{}))
}

func TestWorstWaitCounts(t *testing.T) {
	t.Parallel()
	require.Equal(t, Verdict{OK: true}, worst(nil))
	require.Equal(t, Verdict{RetryAfter: 9, Which: "b"}, worst([]refusal{{"a", 3}, {"b", 9}, {"c", 4}}))
	require.Equal(t, Verdict{Which: "a"}, worst([]refusal{{"a", 0}}), "a refusal without a wait is one all the same")
}

func TestConfigNamesEveryFault(t *testing.T) {
	t.Parallel()
	require.NoError(t, Config{}.Validate())
	require.EqualError(t, Config{
		Remember: 3, CallTimeout: -1, AwayAfter: -1, AwayRetry: -1, AwayPerS: -1,
		Exempt: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:127.0.0.0/104"), netip.MustParsePrefix("127.0.0.0/8")},
	}.Validate(), `remember: 3 is less than 16
call-timeout: -1ns is negative
away-after: -1 is negative
away-retry: -1ns is negative
away-per-s: -1 is negative
exempt: invalid Prefix is no prefix of IPv4 or IPv6 addresses
exempt: ::ffff:127.0.0.0/104 is no prefix of IPv4 or IPv6 addresses`)
	_, err := New(Config{Remember: 1}, nil, nil, nil)
	require.ErrorContains(t, err, "limiter: remember")
}
