package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Times that are said from the start on become moments; wrong ones are named.
func TestTimesFromTheStartOn(t *testing.T) {
	t.Parallel()
	before := time.Now().Truncate(time.Second)
	planned, err := parseEvents("file", []byte("events: [{id: e, lobby_opens_in: 0s, opens_in: 1m, closes_in: 2h}]"))
	require.NoError(t, err)
	require.WithinDuration(t, before.Add(time.Minute), *planned[0].settings.OpensAt, 5*time.Second)
	require.Equal(t, time.Minute, planned[0].settings.OpensAt.Sub(*planned[0].settings.LobbyOpensAt))
	require.Equal(t, 2*time.Hour, planned[0].settings.ClosesAt.Sub(*planned[0].settings.LobbyOpensAt))
	for doc, want := range map[string]string{
		"events: [{id: e, opens_in: soon}]":                                                    "opens_in: must be a duration",
		"events: [{id: e, opens_in: -1s}]":                                                     "opens_in: must be a duration",
		"events: [{id: e, opens_in: 1s, opens_at: 2030-01-01T00:00:00Z}]":                      "opens_at is given too",
		"events: [{id: e, tickets: {kind: slots, items: [{id: a, capacity: 1, ends_in: 7}]}}]": "tickets.items[0].ends_in",
	} {
		_, err := parseEvents("file", []byte(doc))
		require.ErrorContains(t, err, want, doc)
	}
	_, err = parseEvents("file", []byte("events: [{id: e, on_sold_out: close}]"))
	require.ErrorContains(t, err, "on_sold_out")
}
