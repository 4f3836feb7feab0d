package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/ticket"
	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/challenge"
)

var (
	joining   = call{method: "POST", path: "/v1/events/demo/entries"}
	asking    = call{method: "GET", path: "/v1/events/demo/entries/me"}.with("Authorization", "Bearer "+goodReceipt)
	reserving = call{method: "POST", path: "/v1/events/demo/reservations", body: `{"seats":["A-1","A-2"]}`}.
			with("X-Entry-Token", goodToken, "Idempotency-Key", "k1")
	paying  = call{method: "POST", path: "/v1/events/demo/reservations/res-1/payment"}.with("X-Entry-Token", goodToken, "Idempotency-Key", "k2")
	passing = call{method: "GET", path: "/v1/gate/demo"}.with("X-Entry-Token", goodToken)
	ops     = call{method: "GET", path: "/v1/ops/events"}.with("Authorization", "Bearer "+testOperator)
	loading = call{method: "PUT", path: "/v1/events/demo/load", body: `{"pool_usage":0.5}`}.with("Authorization", "Bearer "+testSite)
)

func (c call) at(path string) call     { c.path = path; return c }
func (c call) by(method string) call   { c.method = method; return c }
func (c call) saying(body string) call { c.body = body; return c }

// TestRefusals walks through the contract's table: promises 1, 2 and 3.
func TestRefusals(t *testing.T) {
	t.Parallel()
	reserveFails := func(err error) func(*rig) {
		return func(r *rig) {
			r.tickets.reserve = func(req ticket.ReserveRequest) (ticket.Answer, error) { return ticket.Answer{}, err }
		}
	}
	reserveRefuses := func(err error) func(*rig) {
		return func(r *rig) {
			r.tickets.reserve = func(req ticket.ReserveRequest) (ticket.Answer, error) {
				return refusedAnswer(req.Encode, fmt.Errorf("reserve: %w", err)), nil
			}
		}
	}
	joinFails := func(err error) func(*rig) {
		return func(r *rig) {
			r.line.join = func(waitroom.JoinRequest) (waitroom.Place, error) {
				return waitroom.Place{}, fmt.Errorf("join: %w", err)
			}
		}
	}
	enterFails := func(err error) func(*rig) {
		return func(r *rig) {
			r.line.enter = func(waitroom.Pass) (waitroom.Grant, error) { return waitroom.Grant{}, fmt.Errorf("enter: %w", err) }
		}
	}
	huge := strings.Repeat("x", defaultMaxBody+1)

	for name, tc := range map[string]struct {
		call   call
		set    func(*rig)
		status int
		code   string
		retry  string // the Retry-After header; "" is none
		field  string // the first wrong field, of invalid
	}{
		// No token; a bad or expired one.
		"me without token":           {call: asking.with("Authorization", ""), status: 401, code: "token_required"},
		"me with damaged token":      {call: asking.with("Authorization", "Bearer x"), status: 401, code: "token_invalid"},
		"me with foreign token":      {call: asking.with("Authorization", "Bearer "+foreignPlace), status: 401, code: "token_invalid"},
		"me with entry token":        {call: asking.with("Authorization", "Bearer "+goodToken), status: 401, code: "token_invalid"},
		"me of unknown event":        {call: asking.at("/v1/events/nope/entries/me").with("Authorization", ""), status: 401, code: "token_required"},
		"leave without token":        {call: asking.by("DELETE").with("Authorization", ""), status: 401, code: "token_required"},
		"leave with damaged token":   {call: asking.by("DELETE").with("Authorization", "Bearer x"), status: 401, code: "token_invalid"},
		"reserve without token":      {call: reserving.with("X-Entry-Token", ""), status: 401, code: "token_required"},
		"reserve with damaged token": {call: reserving.with("X-Entry-Token", "x"), status: 401, code: "token_invalid"},
		"reserve with place token":   {call: reserving.with("X-Entry-Token", goodReceipt), status: 401, code: "token_invalid"},
		"reserve with expired token": {call: reserving.with("X-Entry-Token", expiredToken), status: 401, code: "token_expired"},
		"reserve after the session":  {call: reserving, set: enterFails(waitroom.ErrNoEntry), status: 401, code: "token_expired"},
		"token before body":          {call: reserving.with("X-Entry-Token", "").saying("{"), status: 401, code: "token_required"},
		"size before token":          {call: reserving.with("X-Entry-Token", "").saying(huge), status: 413, code: "body_too_large"},
		"gate without token":         {call: passing.with("X-Entry-Token", ""), status: 401, code: "token_required"},
		"gate with damaged token":    {call: passing.with("X-Entry-Token", "x"), status: 401, code: "token_invalid"},
		"gate with expired token":    {call: passing.with("X-Entry-Token", expiredToken), status: 401, code: "token_expired"},
		"site without key":           {call: loading.with("Authorization", ""), status: 401, code: "token_required"},
		"site with operator token":   {call: loading.with("Authorization", "Bearer "+testOperator), status: 401, code: "token_invalid"},
		"ops without token":          {call: ops.with("Authorization", ""), status: 401, code: "token_required"},
		"ops with site key":          {call: ops.with("Authorization", "Bearer "+testSite), status: 401, code: "token_invalid"},
		"ops with place token":       {call: ops.with("Authorization", "Bearer "+goodReceipt), status: 401, code: "token_invalid"},

		// A good token of another event; one revoked; a role that may not.
		"reserve with foreign token": {call: reserving.with("X-Entry-Token", foreignToken), status: 403, code: "token_wrong_event"},
		"gate with foreign token":    {call: passing.with("X-Entry-Token", foreignToken), status: 403, code: "token_wrong_event"},
		"reserve with revoked token": {call: reserving, set: enterFails(waitroom.ErrRevoked), status: 403, code: "token_revoked"},
		"gate with revoked token":    {call: passing, set: enterFails(waitroom.ErrRevoked), status: 403, code: "token_revoked"},
		"write from elsewhere":       {call: joining.with("Origin", "https://evil.example"), status: 403, code: "forbidden"},

		// What the tickets refuse.
		"token used":           {call: reserving, set: reserveRefuses(ticket.ErrTokenUsed), status: 409, code: "token_used"},
		"seat taken":           {call: reserving, set: reserveRefuses(ticket.ErrSeatTaken), status: 409, code: "seat_taken"},
		"sold out":             {call: reserving, set: reserveRefuses(ticket.ErrSoldOut), status: 409, code: "sold_out"},
		"already reserved":     {call: reserving, set: reserveRefuses(ticket.ErrAlreadyReserved), status: 409, code: "already_reserved"},
		"timetable clash":      {call: reserving, set: reserveRefuses(ticket.ErrTimetableClash), status: 409, code: "timetable_clash"},
		"no such seat":         {call: reserving, set: reserveRefuses(ticket.ErrNoSeat), status: 404, code: "not_found"},
		"sells another way":    {call: reserving, set: reserveRefuses(ticket.ErrWrongMode), status: 409, code: "wrong_mode"},
		"contended":            {call: reserving, set: reserveFails(ticket.ErrContended), status: 409, code: "contended", retry: "1"},
		"first call runs":      {call: reserving, set: reserveFails(ticket.ErrInProgress), status: 409, code: "idempotency_in_progress", retry: "1"},
		"key of another body":  {call: reserving, set: reserveFails(ticket.ErrIdempotencyMismatch), status: 422, code: "idempotency_mismatch"},
		"database away":        {call: reserving, set: reserveFails(ticket.ErrUnavailable), status: 503, code: "unavailable", retry: "2"},
		"database too slow":    {call: reserving, set: reserveFails(context.DeadlineExceeded), status: 503, code: "unavailable", retry: "2"},
		"store away":           {call: reserving, set: enterFails(waitroom.ErrUnavailable), status: 503, code: "unavailable", retry: "2"},
		"store away, the gate": {call: passing, set: enterFails(waitroom.ErrUnavailable), status: 403, code: "unavailable", retry: "2"},
		"hold ended": {call: paying, set: func(r *rig) {
			r.tickets.pay = func(req ticket.PayRequest) (ticket.Answer, error) {
				return refusedAnswer(req.Encode, ticket.ErrHoldExpired), nil
			}
		}, status: 409, code: "hold_expired"},
		"paying already": {call: paying.by("DELETE").at("/v1/events/demo/reservations/res-1"), set: func(r *rig) {
			r.tickets.cancel = ticket.ErrNotCancellable
		}, status: 409, code: "not_cancellable"},
		"sells nothing": {call: asking.at("/v1/events/demo/seats"), status: 409, code: "wrong_mode"},

		// No such thing.
		"no such route":                {call: asking.at("/v2"), status: 404, code: "not_found"},
		"no such event":                {call: asking.at("/v1/events/nope"), status: 404, code: "not_found"},
		"no event's id":                {call: asking.at("/v1/events/NO%2Fpe"), status: 404, code: "not_found"},
		"seats of no event":            {call: asking.at("/v1/events/nope/seats"), status: 404, code: "not_found"},
		"join no event":                {call: joining.at("/v1/events/nope/entries"), status: 404, code: "not_found"},
		"tokens of no event":           {call: joining.at("/v1/events/nope/tokens"), status: 404, code: "not_found"},
		"load of no event":             {call: loading.at("/v1/events/nope/load"), status: 404, code: "not_found"},
		"no such reservation":          {call: asking.at("/v1/events/demo/reservations/nope"), status: 404, code: "not_found"},
		"not a reservation's id":       {call: asking.at("/v1/events/demo/reservations/%00"), status: 404, code: "not_found"},
		"somebody else's":              {call: asking.at("/v1/events/demo/reservations/res-1").with("Authorization", "Bearer "+otherToken), status: 404, code: "not_found"},
		"somebody else's, paying":      {call: paying.with("X-Entry-Token", otherToken), status: 404, code: "not_found"},
		"somebody else's, giving back": {call: paying.by("DELETE").at("/v1/events/demo/reservations/res-1").with("X-Entry-Token", otherToken), status: 404, code: "not_found"},
		"wrong method":                 {call: joining.by("PUT"), status: 405, code: "method_not_allowed"},
		"no such route before size":    {call: joining.at("/v2").saying(huge), status: 404, code: "not_found"},
		"no such route before origin":  {call: joining.at("/v2").with("Origin", "https://evil.example"), status: 404, code: "not_found"},
		"wrong method before size":     {call: joining.by("PUT").saying(huge), status: 405, code: "method_not_allowed"},
		"wrong method before token":    {call: reserving.by("PATCH").with("X-Entry-Token", ""), status: 405, code: "method_not_allowed"},
		"unknown method":               {call: joining.by("BREW"), status: 405, code: "method_not_allowed"},
		"body before mode":             {call: joining.at("/v1/events/demo/tokens").saying(`{"x":1}`), status: 422, code: "invalid", field: "x"},
		"instant only":                 {call: joining.at("/v1/events/demo/tokens"), status: 409, code: "wrong_mode"},
		"ops route that is not there":  {call: ops.at("/v1/ops/nothing"), status: 404, code: "not_found"},
		"an asset that is not there":   {call: asking.at("/assets/nope.js"), status: 404, code: "not_found"},
		"an asset outside":             {call: asking.at("/assets/../index.html"), status: 404, code: "not_found"},
		"use what was used": {call: loading.by("POST").at("/v1/events/demo/sessions/j/use").saying(""), set: func(r *rig) {
			r.line.use = func(string, string) error { return fmt.Errorf("use: %w", waitroom.ErrUsed) }
		}, status: 409, code: "token_used"},
		"check of nobody":         {call: loading.by("POST").at("/v1/events/demo/sessions/check").saying(`{"jtis":[]}`), status: 422, code: "invalid", field: "jtis"},
		"check of what is no id":  {call: loading.by("POST").at("/v1/events/demo/sessions/check").saying(`{"jtis":["a b"]}`), status: 422, code: "invalid", field: "jtis"},
		"check in no event":       {call: loading.by("POST").at("/v1/events/nope/sessions/check").saying(`{"jtis":["a"]}`), status: 404, code: "not_found"},
		"check by a stranger":     {call: loading.by("POST").at("/v1/events/demo/sessions/check").saying(`{"jtis":["a"]}`).with("Authorization", "Bearer x"), status: 401, code: "token_invalid"},
		"use with a long key":     {call: loading.by("POST").at("/v1/events/demo/sessions/j/use").saying("").with("Idempotency-Key", strings.Repeat("k", 256)), status: 422, code: "invalid", field: "Idempotency-Key"},
		"complete what never was": {call: loading.by("POST").at("/v1/events/demo/sessions/j/complete").saying(""), set: func(r *rig) { r.line.complete = func(string) error { return waitroom.ErrNoEntry } }, status: 404, code: "not_found"},
		"ops on no event":         {call: ops.at("/v1/ops/events/nope"), status: 404, code: "not_found"},
		"ops metrics of no event": {call: ops.at("/v1/ops/events/nope/metrics"), status: 404, code: "not_found"},
		"entry that is not there any more": {call: asking, set: func(r *rig) {
			r.line.place = func() (waitroom.Place, error) { return waitroom.Place{}, waitroom.ErrNoEntry }
		}, status: 404, code: "not_found"},

		// Not open yet; closed; not this person's window; blocked.
		"not open": {call: joining, set: joinFails(waitroom.ErrNotOpen), status: 403, code: "not_open", retry: "30"},
		"not open, with a schedule": {call: joining, set: func(r *rig) {
			opens := testNow.Add(90 * time.Second)
			r.view.event.OpensAt = &opens
			joinFails(waitroom.ErrNotOpen)(r)
		}, status: 403, code: "not_open", retry: "90"},
		"closed":       {call: joining, set: joinFails(waitroom.ErrClosed), status: 403, code: "closed"},
		"not eligible": {call: joining, set: joinFails(waitroom.ErrNotEligible), status: 403, code: "not_eligible"},
		"blocked":      {call: joining, set: joinFails(waitroom.ErrBlocked), status: 403, code: "blocked"},
		"exhausted":    {call: joining, set: joinFails(waitroom.ErrExhausted), status: 409, code: "exhausted", retry: "5"},

		// Too many; a challenge.
		"rate limited":                    {call: joining, set: joinFails(ErrRateLimited), status: 429, code: "rate_limited", retry: "1"},
		"rate limited for longer":         {call: joining, set: joinFails(After(ErrRateLimited, 6100*time.Millisecond)), status: 429, code: "rate_limited", retry: "7"},
		"rate limited for nearly no time": {call: joining, set: joinFails(After(ErrRateLimited, time.Microsecond)), status: 429, code: "rate_limited", retry: "1"},
		"rate limited until just now":     {call: joining, set: joinFails(After(ErrRateLimited, 0)), status: 429, code: "rate_limited", retry: "1"},
		"challenge required":              {call: joining, set: joinFails(ErrChallengeRequired), status: 403, code: "challenge_required"},
		"challenge failed":                {call: joining, set: joinFails(challenge.ErrFailed), status: 403, code: "challenge_failed"},
		"store too busy":                  {call: joining, set: joinFails(waitroom.ErrBusy), status: 503, code: "unavailable", retry: "2"},
		"unknown fault":                   {call: joining, set: joinFails(errors.New("secret cause")), status: 500, code: "internal"},

		// Bodies.
		"huge":                    {call: reserving.saying(huge), status: 413, code: "body_too_large"},
		"huge join":               {call: joining.saying(huge), status: 413, code: "body_too_large"},
		"not JSON":                {call: reserving.saying(`{"seats":`), status: 400, code: "bad_json"},
		"JSON and more":           {call: reserving.saying(`{"quantity":1} {}`), status: 400, code: "bad_json"},
		"no body":                 {call: reserving.saying("").with("Content-Type", "application/json"), status: 400, code: "bad_json"},
		"broken UTF-8":            {call: reserving.saying("{\"seats\":[\"A\xff\"]}"), status: 400, code: "bad_json"},
		"deep":                    {call: reserving.saying(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)), status: 400, code: "bad_json"},
		"a list":                  {call: reserving.saying(`[]`), status: 422, code: "invalid", field: "body"},
		"null":                    {call: reserving.saying(`null`), status: 422, code: "invalid", field: "body"},
		"no type":                 {call: reserving.with("Content-Type", ""), status: 415, code: "unsupported_media_type"},
		"a form":                  {call: reserving.with("Content-Type", "application/x-www-form-urlencoded"), status: 415, code: "unsupported_media_type"},
		"another charset":         {call: reserving.with("Content-Type", "application/json; charset=latin1"), status: 415, code: "unsupported_media_type"},
		"unknown field":           {call: reserving.saying(`{"seats":["A-1"],"price":0}`), status: 422, code: "invalid", field: "price"},
		"unknown field of a join": {call: joining.saying(`{"name":"ann"}`), status: 422, code: "invalid", field: "name"},
		"name in other case":      {call: reserving.saying(`{"Seats":["A-1"]}`), status: 422, code: "invalid", field: "Seats"},
		"wrong type":              {call: reserving.saying(`{"seats":"A-1"}`), status: 422, code: "invalid", field: "seats"},
		"wrong type inside":       {call: reserving.saying(`{"seats":[1]}`), status: 422, code: "invalid", field: "seats"},
		"null field":              {call: reserving.saying(`{"seats":null}`), status: 422, code: "invalid", field: "seats"},
		"field twice":             {call: reserving.saying(`{"quantity":1,"quantity":2}`), status: 422, code: "invalid", field: "quantity"},
		"nothing wanted":          {call: reserving.saying(`{}`), status: 422, code: "invalid", field: "seats"},
		"no seats":                {call: reserving.saying(`{"seats":[]}`), status: 422, code: "invalid", field: "seats"},
		"empty seat":              {call: reserving.saying(`{"seats":[""]}`), status: 422, code: "invalid", field: "seats"},
		"seat with a zero byte":   {call: reserving.saying(`{"seats":["A\u0000"]}`), status: 422, code: "invalid", field: "seats"},
		"a seat twice":            {call: reserving.saying(`{"seats":["A-1","A-1"]}`), status: 422, code: "invalid", field: "seats"},
		"seats and quantity":      {call: reserving.saying(`{"seats":["A-1"],"quantity":1}`), status: 422, code: "invalid", field: "seats"},
		"quantity zero":           {call: reserving.saying(`{"quantity":0}`), status: 422, code: "invalid", field: "quantity"},
		"quantity below":          {call: reserving.saying(`{"quantity":-1}`), status: 422, code: "invalid", field: "quantity"},
		"quantity broken":         {call: reserving.saying(`{"quantity":1.5}`), status: 422, code: "invalid", field: "quantity"},
		"quantity enormous":       {call: reserving.saying(`{"quantity":1e99}`), status: 422, code: "invalid", field: "quantity"},
		"no key":                  {call: reserving.with("Idempotency-Key", ""), status: 422, code: "invalid", field: "Idempotency-Key"},
		"key too long":            {call: reserving.with("Idempotency-Key", strings.Repeat("k", 256)), status: 422, code: "invalid", field: "Idempotency-Key"},
		"no key to pay":           {call: paying.with("Idempotency-Key", ""), status: 422, code: "invalid", field: "Idempotency-Key"},
		"pay with a number":       {call: paying.saying(`{"method":1}`), status: 422, code: "invalid", field: "method"},
		"load above one":          {call: loading.saying(`{"pool_usage":83}`), status: 422, code: "invalid", field: "pool_usage"},
		"load missing":            {call: loading.saying(`{}`), status: 422, code: "invalid", field: "pool_usage"},
		"load not a number":       {call: loading.saying(`{"pool_usage":"NaN"}`), status: 422, code: "invalid", field: "pool_usage"},
		"enter without a form":    {call: joining.at(strings.Replace(routeEnter, ":event", "demo", 1)).saying("{}"), status: 415, code: "unsupported_media_type"},

		// Operators.
		"create not JSON":          {call: ops.by("POST").saying("{"), status: 400, code: "bad_json"},
		"create a form":            {call: ops.by("POST").saying("{}").with("Content-Type", "text/plain"), status: 415, code: "unsupported_media_type"},
		"create unknown setting":   {call: ops.by("POST").saying(`{"id":"a","rat_per_s":1}`), status: 422, code: "invalid", field: "rat_per_s"},
		"create again":             {call: ops.by("POST").saying(`{"id":"demo"}`), status: 409, code: "exists"},
		"admit both":               {call: ops.by("POST").at("/v1/ops/events/demo/admit").saying(`{"count":1,"entry_id":"a"}`), status: 422, code: "invalid", field: "count"},
		"admit nothing":            {call: ops.by("POST").at("/v1/ops/events/demo/admit").saying(`{}`), status: 422, code: "invalid", field: "count"},
		"admit too many":           {call: ops.by("POST").at("/v1/ops/events/demo/admit").saying(`{"count":1000000}`), status: 422, code: "invalid", field: "count"},
		"admit into a full room":   {call: ops.by("POST").at("/v1/ops/events/demo/admit").saying(`{"count":1}`), set: func(r *rig) { r.ops.err = waitroom.ErrFull }, status: 409, code: "full", retry: "5"},
		"block who never was":      {call: ops.by("POST").at("/v1/ops/events/demo/block").saying(`{"entry_id":"unknown"}`), status: 404, code: "not_found"},
		"block nobody":             {call: ops.by("POST").at("/v1/ops/events/demo/block").saying(`{}`), status: 422, code: "invalid", field: "entry_id"},
		"block two":                {call: ops.by("POST").at("/v1/ops/events/demo/block").saying(`{"entry_id":"x","subject":"ann"}`), status: 422, code: "invalid", field: "entry_id"},
		"block a stranger's name":  {call: ops.by("POST").at("/v1/ops/events/demo/block").saying(`{"subject":"ann"}`), status: 422, code: "invalid", field: "subject"},
		"revoke what is not there": {call: ops.by("POST").at("/v1/ops/events/demo/revoke").saying(`{"jti":"unknown"}`), status: 404, code: "not_found"},
		"audit of bad length":      {call: ops.at("/v1/ops/events/demo/audit?limit=0"), status: 422, code: "invalid", field: "limit"},
		"ops with the store away":  {call: ops, set: func(r *rig) { r.ops.err = waitroom.ErrUnavailable }, status: 503, code: "unavailable", retry: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if tc.set != nil {
				tc.set(r)
			}
			w := r.do(t, tc.call)
			require.Equal(t, tc.status, w.Code, "%s", w.Body)
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			p := problemIn(t, w)
			require.Equal(t, tc.code, p.Code)
			require.Equal(t, tc.status, p.Status)
			require.NotEmpty(t, p.Detail)
			require.NotContains(t, p.Detail, "secret cause")
			require.Equal(t, tc.retry, w.Header().Get("Retry-After"))
			require.Equal(t, tc.retry != "", p.RetryAfterMS > 0, "the header and the body say the same")
			if tc.field != "" {
				require.NotEmpty(t, p.Errors)
				require.Equal(t, tc.field, p.Errors[0].Field)
				require.NotEmpty(t, p.Errors[0].Detail)
			}
		})
	}
}

// TestRefusalOfWrappedErrors holds promise 1: however deep, the same answer.
func TestRefusalOfWrappedErrors(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range refusals {
		seen[r.code] = true
		plain := problemOf(r.is)
		wrapped := problemOf(fmt.Errorf("here: %w", errors.Join(errors.New("there"), fmt.Errorf("deeper: %w", r.is))))
		require.Equal(t, plain, wrapped, "%s", r.code)
		require.Equal(t, r.code, plain.Code)
		require.Equal(t, r.status, plain.Status)
	}
	require.Len(t, seen, 35, "a new code is named in the OpenAPI document too")
	deep := fmt.Errorf("decode: %w", wrongField("x", "is wrong"))
	require.Equal(t, http.StatusUnprocessableEntity, problemOf(deep).Status)
	require.Equal(t, []waitroom.FieldError{{Field: "x", Detail: "is wrong"}}, problemOf(deep).Errors)
}

// A part that serves connections itself says what the code means in general, and not
// what is only one reason for it.
func TestRefuseSaysTheUsual(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"invalid": "something in the request is wrong", "not_found": "no such event", "forbidden": "this caller may not do that",
		"unavailable": "the service is busy with itself; nothing is lost", "token_required": "this call needs a token",
	} {
		w := httptest.NewRecorder()
		Refuse(w, nil, http.StatusBadRequest, code, 0)
		var p problem
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
		require.Equal(t, [2]string{code, want}, [2]string{p.Code, p.Detail})
	}
}
