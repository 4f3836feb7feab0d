package hub

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func TestMessagesAreWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	type positionMessage struct {
		Type      string  `json:"type"`
		Position  int64   `json:"position"`
		Ahead     int64   `json:"ahead"`
		Waiting   int64   `json:"waiting"`
		EtaS      int64   `json:"eta_s,omitempty"`
		EtaP90S   int64   `json:"eta_p90_s,omitempty"`
		Lane      string  `json:"lane,omitempty"`
		RatePerS  float64 `json:"rate_per_s"`
		SeatsLeft *int64  `json:"seats_left,omitempty"`
	}
	seats := int64(4210)
	require.Equal(t,
		marshal(t, positionMessage{"position", 12847, 12846, 200000, 26, 41, "eu-west", 500, &seats}),
		string(position{pos: 12847, waiting: 200000, eta: 25100 * time.Millisecond, p90: 41 * time.Second, tail: appendTail(nil, "eu-west", 500, 4210)}.append(nil)))
	require.Equal(t,
		marshal(t, positionMessage{Type: "position", Position: 1, Waiting: 1, RatePerS: 0.1}),
		string(position{pos: 1, tail: appendTail(nil, "", 0.1, -1)}.append(nil)), "no estimate and nothing for sale: the fields are absent")
	same := func(want, got string) { t.Helper(); require.Equal(t, want, got) } // to the byte
	same(`{"type":"position","position":3,"ahead":2,"waiting":3,"eta_s":1,"eta_p90_s":1,"rate_per_s":0,"seats_left":0}`,
		string(position{pos: 3, eta: time.Millisecond, tail: appendTail(nil, "", 0, 0)}.append(nil))) // an estimate is never zero

	require.Equal(t, marshal(t, struct {
		Type        string `json:"type"`
		EntryToken  string `json:"entry_token"`
		AdmittedAt  string `json:"admitted_at"`
		ExpiresAt   string `json:"expires_at"`
		RedirectURL string `json:"redirect_url"`
	}{"admitted", "a.b-c_d", "2027-01-15T07:55:00.120Z", "2027-01-15T08:00:00.120Z", "https://shop.example/?a=1&b=<2>"}),
		string(appendAdmitted(nil, "a.b-c_d", time.UnixMilli(1_799_999_700_120), time.UnixMilli(1_800_000_000_120).In(time.FixedZone("x", 3600)), "https://shop.example/?a=1&b=<2>")))

	type eventMessage struct {
		Type    string `json:"type"`
		State   string `json:"state"`
		Reason  string `json:"reason,omitempty"`
		Since   string `json:"since,omitempty"`
		Message string `json:"message,omitempty"`
	}
	require.Equal(t, marshal(t, eventMessage{"event", "paused", "database_busy", "2027-01-15T08:00:00.120Z", "\"Gleich\" geht's\nweiter \u2028 \xff é"}),
		string(appendEvent(nil, waitroom.Paused, "database_busy", time.UnixMilli(1_800_000_000_120), "\"Gleich\" geht's\nweiter \u2028 \xff é")))
	require.Equal(t, marshal(t, eventMessage{Type: "event", State: "open"}), string(appendEvent(nil, waitroom.Open, "", time.Time{}, "")))

	type reservationMessage struct {
		Type          string `json:"type"`
		ReservationID string `json:"reservation_id"`
		Status        string `json:"status"`
		Reason        string `json:"reason,omitempty"`
	}
	require.Equal(t, marshal(t, reservationMessage{"reservation", "r1", "cancelled", "payment_unavailable"}),
		string(appendReservation(nil, ticket.Outcome{ReservationID: "r1", Status: ticket.Cancelled, Reason: "payment_unavailable"})))
	require.Equal(t, marshal(t, reservationMessage{Type: "reservation", ReservationID: "r1", Status: "paid"}),
		string(appendReservation(nil, ticket.Outcome{ReservationID: "r1", Status: ticket.Paid})))

	same(`{"type":"seats","seats_left":9,"version":"6-a","seats":[{"id":"A-1","status":"held","version":5},{"id":"\u003c","status":"free","version":7}]}`,
		string(appendSeats(nil, "6-a", ticket.Delta{Left: 9, Seats: []ticket.Seat{{ID: "A-1", Status: ticket.SeatHeld, Version: 5}, {ID: "<", Status: ticket.SeatFree, Version: 7}}})))
	same(`{"type":"seats","seats_left":3,"version":"6-b","items":[{"id":"dose","total":9,"free":3,"version":4}]}`,
		string(appendSeats(nil, "6-b", ticket.Delta{Left: 3, Items: []ticket.Item{{ID: "dose", Total: 9, Free: 3, Version: 4}}})))
	same(`{"type":"seats","seats_left":0,"version":"6-b"}`, string(appendSeats(nil, "6-b", ticket.Delta{})))
	same(`{"type":"seats","seats_left":3,"reload":true}`, string(appendSeats(nil, "6-b", ticket.Delta{Left: 3, Reload: true})))

	same(`{"type":"ended","state":"expired"}`, string(appendEnded(nil, waitroom.EntryExpired)))
	same(`{"type":"bye","retry_after_ms":1234}`, string(appendBye(nil, 1234*time.Millisecond+999)))
}

func TestFloatsThatJSONCannotHold(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.Equal(t, "0", string(appendFloat(nil, f)))
	}
}

// A position message is made without a single allocation.
func TestPositionAllocatesNothing(t *testing.T) {
	b := make([]byte, 0, 256)
	m := position{pos: 12847, waiting: 200000, eta: time.Minute, p90: time.Minute, tail: appendTail(nil, "", 0.5, 4210)}
	require.Zero(t, testing.AllocsPerRun(100, func() { b = m.append(b[:0]) }))
}

func FuzzStringAndFloat(f *testing.F) {
	f.Add("plain", 1.0)
	f.Add("\x00\x1f\"\\<>&\u2028\u2029\xff\xc3\xa9\u00e9\U0001f600\x7f\b\f\n\r\t", 1e21)
	f.Add("\xed\xa0\x80", -1.5e-9)
	f.Add("\xe2\x80", 5e-324)
	f.Fuzz(func(t *testing.T, s string, x float64) {
		require.Equal(t, marshal(t, s), string(appendString(nil, s)))
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			require.Equal(t, marshal(t, x), string(appendFloat(nil, x)))
		}
	})
}

func FuzzInbound(f *testing.F) {
	for _, s := range []string{
		`{"type":"hello","place_token":"abc"}`, `{"type":"leave"}`, `{"type":"later","more":[1,{"a":null}]}`,
		`{}`, `null`, `[]`, `7`, `{"type":1}`, "{\"type\":\"\xff\"}", `{"type":"hello","place_token":["x"]}`, `{"type":"hello"} x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseInbound(data)
		var object map[string]any
		isObject := json.Unmarshal(data, &object) == nil && object != nil
		if err != nil {
			require.ErrorIs(t, err, errBroken)
			require.Equal(t, inbound{}, m)
			return
		}
		require.True(t, isObject, "%q is no object, but was taken", data)
		if m.kind != inboundHello {
			require.Empty(t, m.token)
		}
	})
}

func TestFrames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "\x81\x02{}", string(appendFrame(nil, false, []byte("{}"))))
	require.Equal(t, "data: {}\n\n", string(appendFrame(nil, true, []byte("{}"))))
	long := make([]byte, 126)
	require.Equal(t, "\x81\x7e\x00\x7e", string(appendFrame(nil, false, long)[:4]))
	longer := make([]byte, 1<<16)
	require.Equal(t, "\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00", string(appendFrame(nil, false, longer)[:10]))
	require.Equal(t, "\x88\x06\x03\xf0slow", string(appendClose(nil, false, Code{Code: 1008, Reason: "slow"})))
	require.Empty(t, appendClose(nil, true, CodeSlow))
	require.Equal(t, "\x89\x00", string(appendPing(nil, false)))
	require.Equal(t, ":\n\n", string(appendPing(nil, true)))
}

// A close frame's reason has 123 bytes at most, and its code must be one that may be sent.
func TestCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []Code{
		CodeBadData, CodeBinary, CodeNoHello, CodeBadToken, CodeFlood, CodeTooBig, CodeRestart, CodeSlow,
		CodeBlocked, CodeNoEvent, CodeExpired, CodeLeft,
	} {
		require.LessOrEqual(t, len(c.Reason), 123)
		require.NotEmpty(t, c.Reason)
		require.True(t, c.Code >= 1000 && c.Code < 1015 && c.Code != 1005 && c.Code != 1006 || c.Code >= 4000 && c.Code < 5000)
	}
	for _, c := range []struct {
		state   waitroom.EntryState
		hadTurn bool
		code    Code
		closes  bool
	}{
		{waitroom.EntryBlocked, true, CodeBlocked, true},
		{waitroom.EntryLeft, true, CodeLeft, true},
		{waitroom.EntryExpired, false, CodeExpired, true},
		{waitroom.EntryExpired, true, CodeExpired, false},
		{waitroom.EntryCompleted, true, Code{}, false},
	} {
		code, closes := endCode(c.state, c.hadTurn)
		require.Equal(t, c.code, code)
		require.Equal(t, c.closes, closes)
	}
}
