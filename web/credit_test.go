package web

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// Whom the service fails on reserving or paying is given a credit by itself, with or
// without a store; nobody else is.
func TestCreditForWhomTheServiceFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reserve := call{method: "POST", path: "/v1/events/demo/reservations", body: `{"quantity":1}`}.
		with("Content-Type", "application/json").with("Idempotency-Key", "k").with("X-Entry-Token", goodToken)
	pay := call{method: "POST", path: "/v1/events/demo/reservations/res-1/payment"}.with("Idempotency-Key", "k").with("X-Entry-Token", goodToken)
	credit := func(c call, status int) string {
		t.Helper()
		w := r.do(t, c)
		require.Equal(t, status, w.Code, w.Body.String())
		var p struct{ Credit string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
		return p.Credit
	}
	require.Empty(t, credit(reserve, http.StatusCreated))
	r.tickets.reserve = func(ticket.ReserveRequest) (ticket.Answer, error) { return ticket.Answer{}, ticket.ErrUnavailable }
	r.tickets.pay = func(ticket.PayRequest) (ticket.Answer, error) { return ticket.Answer{}, ticket.ErrUnavailable }
	require.Equal(t, "credit-of-jti-1", credit(reserve, http.StatusServiceUnavailable))
	require.Equal(t, "credit-of-jti-1", credit(pay, http.StatusServiceUnavailable))
	r.tickets.reserve = func(ticket.ReserveRequest) (ticket.Answer, error) { return ticket.Answer{}, ticket.ErrContended }
	require.Empty(t, credit(reserve, http.StatusConflict), "a refusal is no fault")
	r.line.enter = func(waitroom.Pass) (waitroom.Grant, error) { return waitroom.Grant{}, waitroom.ErrUnavailable }
	require.Equal(t, "credit-of-jti-1", credit(reserve, http.StatusServiceUnavailable))
	require.Empty(t, credit(reserve.with("X-Entry-Token", expiredToken), http.StatusServiceUnavailable), "its time was over")
	require.Equal(t, "credit-of-jti-1", credit(reserve.with("X-Entry-Token", lateToken), http.StatusServiceUnavailable), "her session may run")
	require.Empty(t, credit(reserve.with("X-Entry-Token", "forged"), http.StatusUnauthorized))
	for _, c := range []struct {
		mode, returns, want string
	}{{waitroom.ModeInstant, "unused", "credit-of-jti-1"}, {waitroom.ModeInstant, "never", ""}, {waitroom.ModeBuffered, "", ""}} {
		was := r.view.event
		r.view.event.Mode, r.view.event.Quota.Returns = c.mode, c.returns
		require.Equal(t, c.want, credit(reserve, http.StatusServiceUnavailable), c)
		r.view.event = was
	}

	redeem := func(body string) call {
		return call{method: "POST", path: "/v1/events/demo/credits", body: body}.
			with("Content-Type", "application/json").with("Authorization", "Bearer "+goodReceipt)
	}
	w := r.do(t, redeem(`{"credit":"credit-of-jti-1"}`))
	require.Equal(t, http.StatusCreated, w.Code, w.Body.String())
	require.Contains(t, w.Body.String(), `"entry_token":"token-jti-1"`)
	for body, status := range map[string]int{
		`{}`: http.StatusUnprocessableEntity, `{"credit":"forged"}`: http.StatusUnauthorized, `{"credit":"credit-of-jti-2"}`: http.StatusConflict,
	} {
		require.Equal(t, status, r.do(t, redeem(body)).Code, body)
	}
}
