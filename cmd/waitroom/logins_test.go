package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/identity"
)

// An event that knows its people can be tried at once, by logins of each group; with
// real servers a site that says nothing of how it signs is a wrong configuration.
func TestTrialLogins(t *testing.T) {
	t.Parallel()
	events, err := preset("course-registration")
	require.NoError(t, err)
	var cfg serveConfig
	logins, err := trialLogins(&cfg, plan{events: events})
	require.NoError(t, err)
	require.Len(t, logins, 4)
	v, err := identity.New(cfg.Identity)
	require.NoError(t, err)
	for i, l := range logins {
		who, err := v.Read(t.Context(), l.token)
		require.NoError(t, err)
		require.Equal(t, []string{l.group}, events[0].settings.GroupsOf(who.Claims))
		require.InDelta(t, 4-i, who.Claims["year"], 0)
	}
	none, err := trialLogins(&cfg, plan{events: events})
	require.NoError(t, err)
	require.Empty(t, none, "the site's own secret is known")
	_, err = trialLogins(&serveConfig{Redis: "redis://x"}, plan{events: events})
	require.ErrorContains(t, err, "identity-secret: event course-registration has identity jwt")
}
