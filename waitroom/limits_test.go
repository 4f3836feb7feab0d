package waitroom

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRule(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Rule{
		"60/1m": {60, time.Minute}, "5/1s": {5, time.Second}, "3/10s": {3, 10 * time.Second},
		"1/100ms": {1, 100 * time.Millisecond}, "1000000/24h": {1_000_000, 24 * time.Hour},
		"007/1m30s": {7, 90 * time.Second}, "off": {},
	} {
		got, err := ParseRule(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for s, want := range map[string]string{
		"": errRule.Error(), "60": errRule.Error(), "60/": errRule.Error(), "/1m": errRule.Error(), "60/m": errRule.Error(),
		"+60/1m": errRule.Error(), "-1/1m": errRule.Error(), "6e1/1m": errRule.Error(), " 60/1m": errRule.Error(),
		"60/1m ": errRule.Error(), "60/1m/1m": errRule.Error(), "60 per minute": errRule.Error(), "OFF": errRule.Error(),
		"99999999999999999999/1m": errRule.Error(), "٣/1m": errRule.Error(),
		"0/1m": "must allow 1 to 1000000 calls", "1000001/1m": "must allow 1 to 1000000 calls",
		"1/99ms": "must be for 100ms to 24h", "1/25h": "must be for 100ms to 24h", "1/-1m": "must be for 100ms to 24h",
	} {
		_, err := ParseRule(s)
		require.EqualError(t, err, want, "%q", s)
	}
}

func TestLimitsAreSettings(t *testing.T) {
	t.Parallel()
	s, _, err := DecodeSettings([]byte(`{"id":"a"}`))
	require.NoError(t, err)
	require.Equal(t, LimitSettings{Person: "60/1m", PersonBurst: "5/1s", Address: "100/1m", Booking: "60/1m", Issue: "3/10s", Guesses: "10/1m"}, s.Limits)

	s, _, err = DecodeSettings([]byte(`{"id":"a","limits":{"address":"off","issue":"1/1m"}}`))
	require.NoError(t, err)
	require.Equal(t, LimitSettings{Person: "60/1m", PersonBurst: "5/1s", Address: "off", Booking: "60/1m", Issue: "1/1m", Guesses: "10/1m"}, s.Limits)

	_, _, err = DecodeSettings([]byte(`{"id":"a","limits":{"person":"lots","person_burst":"0/1s","address":"1/1y","booking":"1","issue":"1/1ms"}}`))
	invalid, ok := errors.AsType[*InvalidError](err)
	require.True(t, ok, "got %v", err)
	require.Equal(t, []FieldError{
		{"limits.person", errRule.Error()},
		{"limits.person_burst", "must allow 1 to 1000000 calls"},
		{"limits.address", errRule.Error()},
		{"limits.booking", errRule.Error()},
		{"limits.issue", "must be for 100ms to 24h"},
	}, invalid.Fields)

	for doc, want := range map[string]FieldError{
		`{"id":"a","limits":{"people":"60/1m"}}`: {"limits.people", "is not a setting"},
		`{"id":"a","limits":{"person":60}}`:      {"limits.person", "must be a string"},
		`{"id":"a","limits":"off"}`:              {"limits", "must be an object"},
	} {
		_, _, err = DecodeSettings([]byte(doc))
		invalid, ok := errors.AsType[*InvalidError](err)
		require.True(t, ok, "%s: got %v", doc, err)
		require.Equal(t, []FieldError{want}, invalid.Fields, doc)
	}
}

// An event that was stored before it had limits can still be changed.
func TestSettingsWithoutLimitsCanBePatched(t *testing.T) {
	t.Parallel()
	var old Settings
	doc, err := json.Marshal(DefaultSettings("a"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(doc, &old))
	old.Limits = LimitSettings{}
	s, _, err := decodeOver(old, []byte(`{"rate_per_s":3}`))
	require.NoError(t, err)
	require.Equal(t, LimitSettings{}.Defaults(), s.Limits)
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"60/1m", "5/1s", "off", "3/10s", "1/1.5h", "0/0", "//", "9/9e9h", "1/1µs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRule(s)
		if err != nil {
			require.Zero(t, r)
			return
		}
		if s != "off" {
			require.Positive(t, r.N)
			require.Positive(t, r.Per)
		}
		back, err := ParseRule(r.String())
		require.NoError(t, err, "what we write we read: %q became %q", s, r)
		require.Equal(t, r, back)
	})
}
