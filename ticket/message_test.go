package ticket

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever a reservation says, its message is what the JSON of Message is.
func TestMessageIsWhatMarshalWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9 <>&"\\\x00-\x1f\x7f\x{2028}-]{0,12}`))
		r := Reservation{
			ID: text.Draw(rt, "id"), Event: text.Draw(rt, "event"), Person: text.Draw(rt, "person"),
			Status: Status(text.Draw(rt, "status")), Reason: text.Draw(rt, "reason"),
			Seats: rapid.SliceOf(text).Draw(rt, "seats"), AmountCents: rapid.Int64().Draw(rt, "amount"), Currency: text.Draw(rt, "currency"),
		}
		if rapid.Bool().Draw(rt, "no seats") {
			r.Seats = nil
		}
		topic, payment, now := text.Draw(rt, "topic"), text.Draw(rt, "payment"), rapid.Int64Range(0, 1<<45).Draw(rt, "now")
		want, err := json.Marshal(Message{
			Topic: topic, Event: r.Event, ReservationID: r.ID, Person: r.Person, Status: r.Status, Reason: r.Reason, Seats: r.Seats,
			AmountCents: r.AmountCents, Currency: r.Currency, PaymentID: payment, At: millis(now),
		})
		require.NoError(rt, err)
		require.Equal(rt, string(want), string(message(topic, &r, payment, now)))
	})
}
