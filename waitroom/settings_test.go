package waitroom

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDecodeSettingsFillsDefaults(t *testing.T) {
	t.Parallel()
	s, state, err := DecodeSettings([]byte(`{"id":"a"}`))
	require.NoError(t, err)
	require.Empty(t, state)
	require.Equal(t, DefaultSettings("a").Defaults(), func() Settings { s.Name = "a"; return s }())
	require.InDelta(t, 10, s.RatePerS, 0)
	require.Equal(t, Duration(5*time.Minute), s.ClaimTTL)

	s, state, err = DecodeSettings([]byte(`{
		"id":"a","name":"A","rate_per_s":0,"burst":3,"opens_at":"2026-05-01T18:00:00+02:00","state":"paused",
		"claim_ttl":"90s","load":{"steps":[{"at":0.5,"rate_per_s":3}],"floor_per_s":0},
		"tickets":{"kind":"seats","sections":[{"id":"A","rows":2,"seats_per_row":3}]}}`))
	require.NoError(t, err)
	require.Equal(t, Paused, state)
	require.Zero(t, s.RatePerS, "zero that is said stays zero")
	require.Equal(t, []LoadStep{{0.5, 3}}, s.Load.Steps)
	require.Equal(t, "2026-05-01T16:00:00Z", s.OpensAt.Format(time.RFC3339))
	require.Equal(t, 2, s.Tickets.PerUser)
}

func TestDecodeSettingsNamesEveryFault(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string][]FieldError{
		`{"id":"a","colour":"red","rate_pers":1}`:             {{"colour", "is not a setting"}, {"rate_pers", "is not a setting"}},
		`{"id":"a","Name":"x"}`:                               {{"Name", "is not a setting"}},
		`{"id":"a","rate_per_s":"fast"}`:                      {{"rate_per_s", "must be a number"}},
		`{"id":"a","rate_per_s":-1}`:                          {{"rate_per_s", "must be 0 to 100000"}},
		`{"id":"a","burst":1.5}`:                              {{"burst", "must be a whole number"}},
		`{"id":"a","burst":25001}`:                            {{"burst", "must be 0 to 25000"}},
		`{"id":"a","tickets":{"price_cents":-1}}`:             {{"tickets.price_cents", "must be 0 to 1000000000000"}},
		`{"id":"a","name":7}`:                                 {{"name", "must be a string"}},
		`{"id":"a","grace":"2 minutes"}`:                      {{"grace", "must be a duration like 5m or 750ms"}},
		`{"id":"a","grace":"1ms"}`:                            {{"grace", "must be 1s to 168h"}},
		`{"id":"a","opens_at":"tomorrow"}`:                    {{"opens_at", "must be a time like 2026-05-01T18:00:00Z"}},
		`{"id":"a","name":null}`:                              {{"name", "must not be null"}},
		`{"id":"a","name":"x","name":"y"}`:                    {{"name", "is given twice"}},
		`{"id":"A b"}`:                                        {{"id", "must be 1 to 64 characters of a-z, 0-9 and -"}},
		`{}`:                                                  {{"id", "must be 1 to 64 characters of a-z, 0-9 and -"}},
		`{"id":"a","state":"ajar"}`:                           {{"state", "must be one of scheduled, lobby, open, paused, draining, closed"}},
		`{"id":"a","mode":"instant"}`:                         {{"tickets.kind", "mode instant needs a stock to make its quota of"}},
		`{"id":"a","mode":"chaos"}`:                           {{"mode", "must be queue or instant or buffered"}},
		`{"id":"a","winners":[1000]}`:                         {{"winners", "are for mode buffered"}},
		`{"id":"a","mode":"buffered","winners":[0,5,5]}`:      {{"winners[0]", "must be 1 to 1000000000"}, {"winners[2]", "is there twice"}},
		`{"id":"a","at_once":true}`:                           {{"at_once", "is for mode buffered"}},
		`{"id":"a","durable":1}`:                              {{"durable", "must be true or false"}},
		`{"id":"a","durable":true}`:                           {{"durable", "is for mode instant"}},
		`{"id":"a","order":"lifo"}`:                           {{"order", "must be fifo or draw"}},
		`{"id":"a","beacon":{"url":"https://x"}}`:             {{"beacon", "is for order draw"}},
		`{"id":"a","party":{"size":4}}`:                       {{"party", "is for order draw with mode queue: elsewhere nobody waits for their friends"}},
		`{"id":"a","order":"draw","party":{"size":9}}`:        {{"party.size", "must be 2 to 8, or 0 for no parties"}},
		`{"id":"a","order":"draw","party":{"members":4}}`:     {{"party.members", "is not a setting"}},
		`{"id":"a","load":{"law":"pid"}}`:                     {{"load.law", "must be steps or target or none"}},
		`{"id":"a","load":{"target":0}}`:                      {{"load.target", "must be 0.05 to 0.95"}},
		`{"id":"a","load":{"target":1.2}}`:                    {{"load.target", "must be 0.05 to 0.95"}},
		`{"id":"a","load":{"lag":1}}`:                         {{"load.lag", "is not a setting"}},
		`{"id":"a","load":7}`:                                 {{"load", "must be an object"}},
		`{"id":"a","load":{"steps":[{"at":0.9},{"at":0.8}]}}`: {{"load.steps[1].at", "must be above the one before it"}},
		`{"id":"a","load":{"steps":[]}}`:                      {{"load.steps", "must have at least one step; with law none the load bounds nothing"}},
		`{"id":"a","load":{"steps":{}}}`:                      {{"load.steps", "must be a list"}},
		`{"id":"a","tickets":{"kind":"wishes"}}`:              {{"tickets.kind", "must be none or stock or seats or slots or courses"}},

		`{"id":"a","tickets":{"kind":"stock","stock":1,"items":[{"id":"x"}]}}`: {{"tickets.items", "are for kind slots or courses"}},
		`{"id":"a","tickets":{"kind":"slots","items":[{"id":"a b"}]}}`:         {{"tickets.items[0].id", "must be 1 to 64 letters, digits, '-', '_', '.' or ':'"}},

		`{"id":"a","tickets":{"kind":"slots","items":[{"id":"a","price_cents":"x","starts_at":"noon"}]}}`: {
			{"tickets.items[0].price_cents", "must be a whole number"}, {"tickets.items[0].starts_at", "must be a time like 2026-05-01T18:00:00Z"},
		},

		`{"id":"a","tickets":{"kind":"stock"}}`:              {{"tickets.stock", "must be 1 to 100000000"}},
		`{"id":"a","quota":{"factor":-1}}`:                   {{"quota.factor", "must be above 0 and at most 10"}},
		`{"id":"a","quota":{"factor":0}}`:                    {{"quota.factor", "must be above 0 and at most 10"}},
		`{"id":"a","quota":{"returns":"late"}}`:              {{"quota.returns", "must be unused or never"}},
		`{"id":"a","redirect_url":"javascript:alert(1)"}`:    {{"redirect_url", "must be an http or https address, or a path on this host"}},
		`{"id":"a","redirect_url":"//evil.example/"}`:        {{"redirect_url", "must be an http or https address, or a path on this host"}},
		`{"id":"a","lobby_opens_at":"2026-05-01T18:00:00Z"}`: {{"lobby_opens_at", "needs opens_at"}},
		`[]`:           {{"", "must be an object"}},
		`{"id":"a"} x`: {{"", "has something behind its end"}},
		`{"id":`:       {{"", "is not JSON"}},
		`{"id":"a","opens_at":"2026-05-02T18:00:00Z","closes_at":"2026-05-01T18:00:00Z"}`: {{"closes_at", "must be after opens_at"}},
	} {
		_, _, err := DecodeSettings([]byte(doc))
		invalid, ok := errors.AsType[*InvalidError](err)
		require.True(t, ok, "%s: got %v", doc, err)
		require.Equal(t, want, invalid.Fields, doc)
		wrapped, ok := errors.AsType[*InvalidError](fmt.Errorf("event 3: %w", err))
		require.True(t, ok)
		require.Equal(t, want, wrapped.Fields)
	}
}

func TestDurationsAreWrittenShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		5 * time.Minute: `"5m"`, 90 * time.Second: `"1m30s"`, 2 * time.Hour: `"2h"`, 750 * time.Millisecond: `"750ms"`,
		10 * time.Second: `"10s"`, 0: `"0s"`, time.Hour + time.Second: `"1h0m1s"`, 70 * time.Minute: `"1h10m"`,
	} {
		b, err := json.Marshal(Duration(d))
		require.NoError(t, err)
		require.Equal(t, want, string(b))
		var back Duration
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, Duration(d), back)
	}
}

func FuzzDecodeSettings(f *testing.F) {
	f.Add([]byte(`{"id":"a","load":{"steps":[{"at":0.5,"rate_per_s":3}]},"tickets":{"kind":"stock","stock":3}}`))
	f.Add([]byte(`{"id":"a","opens_at":null,"grace":"5m"}`))
	f.Add([]byte(`{"id":"a","load":{"steps":[]}}`)) // was taken, and read back as the default steps
	f.Add([]byte(`{"id":"a","tickets":{"sections":[]}}`))
	f.Add([]byte(`{"id":"a","tickets":{"kind":"courses","items":[{"id":"m","capacity":3,"price_cents":0,"meetings":["mon 10:00-11:00"]}]}}`))
	f.Add([]byte(`{"id":"a","tickets":{"kind":"slots","items":[{"id":"m","starts_at":"2026-05-01T18:00:00Z","ends_at":null,"meetings":[]}]}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		s, state, err := DecodeSettings(doc)
		if err != nil {
			_, ok := errors.AsType[*InvalidError](err)
			require.True(t, ok, "got %v", err)
			return
		}
		require.NoError(t, s.Validate())
		out, err := json.Marshal(s)
		require.NoError(t, err)
		back, again, err := DecodeSettings(out)
		require.NoError(t, err, "what we write we read")
		require.Empty(t, again)
		_ = state
		require.Equal(t, s, back)
	})
}

func TestStartsAreChecked(t *testing.T) {
	t.Parallel()
	s, _, err := DecodeSettings([]byte(`{"id":"e","starts":{"usage":0.8}}`))
	require.NoError(t, err)
	require.Equal(t, StartSettings{Usage: 0.8, Keep: Duration(time.Minute)}, s.Starts)
	s, err = s.Patched([]byte(`{"starts":{"usage":0}}`))
	require.NoError(t, err)
	require.Zero(t, s.Starts, "off again")
	for field, body := range map[string]string{
		"starts.usage":          `{"id":"e","starts":{"usage":1.5}}`,
		"starts.arrivals_per_s": `{"id":"e","starts":{"arrivals_per_s":-1}}`,
		"starts.keep":           `{"id":"e","starts":{"usage":0.5,"keep":"1ms"}}`,
		"starts.every":          `{"id":"e","starts":{"every":1}}`,
		"starts":                `{"id":"e","mode":"instant","tickets":{"kind":"stock","stock":5},"starts":{"usage":0.5}}`,
	} {
		_, _, err := DecodeSettings([]byte(body))
		var wrong *InvalidError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, field, wrong.Fields[0].Field)
	}
}
