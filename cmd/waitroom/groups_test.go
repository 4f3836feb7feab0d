package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

const identitySecret = "a secret that the site and the waiting room share"

// student is the header of somebody whom the site knows, with these claims.
func student(t *testing.T, subject string, claims jwt.MapClaims) map[string]string {
	t.Helper()
	all := jwt.MapClaims{"sub": subject, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, all).SignedString([]byte(identitySecret))
	require.NoError(t, err)
	return bearerOf(token)
}

// Groups over HTTP: a person of another window is told when theirs is, codes come by the
// operator's command, and what takes nobody is refused with the field named.
func TestGroups(t *testing.T) {
	t.Parallel()
	s := startInstance(t, "--identity-secret", identitySecret)
	soon, later := time.Now().Add(5*time.Minute).UTC(), time.Now().Add(24*time.Hour).UTC()
	s.create("courses", facts{"identity": "jwt", "rate_per_s": 0, "groups": []facts{
		{"name": "year-4", "claim": facts{"year": 4}},
		{"name": "year-3", "claim": facts{"year": 3}, "opens_at": soon},
		{"name": "guests", "claim": facts{"roles": "guest"}, "opens_at": later},
	}})
	joining := s.url + "/v1/events/courses/entries"
	join := func(year any, roles ...string) (int, http.Header, map[string]any) {
		return call(t, http.MethodPost, joining, nil, student(t, fmt.Sprint(year, roles), jwt.MapClaims{"year": year, "roles": roles}))
	}
	status, _, joined := join(4)
	require.Equal(t, http.StatusCreated, status, joined)
	status, header, refused := join(3)
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, []any{"not_eligible", "window_early"}, []any{refused["code"], refused["reason"]})
	require.Equal(t, soon.Format("2006-01-02T15:04:05.000Z"), refused["opens_at"])
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	require.NoError(t, err, "it is near")
	require.LessOrEqual(t, seconds, 300)
	status, header, refused = join(0, "friend", "guest")
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, later.Format("2006-01-02T15:04:05.000Z"), refused["opens_at"])
	require.Empty(t, header.Get("Retry-After"), "a day is not near")
	status, _, refused = join("4")
	require.Equal(t, http.StatusForbidden, status)
	require.NotContains(t, refused, "opens_at")
	_, _, public := call(t, http.MethodGet, s.url+"/v1/events/courses", nil, nil)
	require.Len(t, public["groups"], 3)
	require.NotContains(t, fmt.Sprint(public["groups"]), "claim")

	// The window is moved while the event runs.
	s.patch("courses", facts{"groups": []facts{{"name": "year-3", "claim": facts{"year": 3}}}})
	until(t, 10*time.Second, "the other year's window", func() bool {
		status, _, _ := join(3)
		return status == http.StatusCreated
	})
	status, _, joined = join(4)
	require.Equal(t, http.StatusOK, status, "who has joined keeps the place: %v", joined)

	status, answer := s.ops(http.MethodPatch, "/courses", facts{"groups": []facts{{"name": "a", "claim": facts{}}}})
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, fmt.Sprint(answer["errors"]), "groups[0].claim")

	// Codes.
	s.create("presale", facts{"rate_per_s": 0, "groups": []facts{{"name": "club", "codes": true}}})
	file := filepath.Join(t.TempDir(), "codes.txt")
	require.NoError(t, os.WriteFile(file, []byte("CLUB-2345\n\nclub-6789\n"), 0o600))
	codes := func(args ...string) (int, string, string) {
		return runCommand(t, []string{"WAITROOM_OPERATOR_TOKEN=" + operatorToken}, append([]string{"event", "codes", "--target", s.url}, args...)...)
	}
	exit, out, errs := codes("presale", "club", file)
	require.Zero(t, exit, errs)
	require.Equal(t, "2 of 2 codes added\n", out)
	exit, _, errs = codes("presale", "nobody", file)
	require.Equal(t, 1, exit)
	require.Contains(t, errs, "no such group")
	joining = s.url + "/v1/events/presale/entries"
	status, _, refused = call(t, http.MethodPost, joining, nil, nil)
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, []any{"not_eligible", "no_group"}, []any{refused["code"], refused["reason"]})
	status, _, refused = call(t, http.MethodPost, joining, facts{"code": "no such code"}, nil)
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, "code_unknown", refused["reason"])
	status, _, first := call(t, http.MethodPost, joining, facts{"code": "club 2345"}, nil)
	require.Equal(t, http.StatusCreated, status, first)
	status, _, again := call(t, http.MethodPost, joining, facts{"code": "CLUB2345"}, nil)
	require.Equal(t, http.StatusOK, status, again)
	require.Equal(t, first["entry_id"], again["entry_id"])
	status, _, refused = call(t, http.MethodPost, joining, facts{"code": 7}, nil)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, fmt.Sprint(refused["errors"]), "code")
	_, trail := s.ops(http.MethodGet, "/presale/audit", nil)
	require.Contains(t, fmt.Sprint(trail), "2 of club")
	require.NotContains(t, strings.ToUpper(fmt.Sprint(trail)), "2345")
}
