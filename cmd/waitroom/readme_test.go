package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's table of settings is the one that the code has. With
// UPDATE_README=1 it is written anew.
func TestReadmeSettings(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../README.md", "<!-- settings:begin -->\n", "<!-- settings:end -->"
	var table strings.Builder
	table.WriteString("| key | default | meaning |\n| --- | --- | --- |\n")
	for _, s := range settings {
		byDefault := ""
		if s.byDefault != "" {
			byDefault = "`" + s.byDefault + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", s.name, byDefault, strings.ReplaceAll(s.help, "|", "\\|"))
	}
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(raw), begin)
	require.True(t, found)
	have, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if os.Getenv("UPDATE_README") == "1" {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+table.String()+end+after), 0o600))
		return
	}
	require.Equal(t, table.String(), have, "run UPDATE_README=1 go test ./cmd/waitroom -run TestReadmeSettings")
}

// The README's groups and lanes are an event.
func TestReadmeGroups(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(raw), "<!-- groups:begin -->\n```yaml\n")
	require.True(t, found)
	block, _, found := strings.Cut(rest, "```\n<!-- groups:end -->")
	require.True(t, found)
	event := "events:\n  - id: e\n    rate_per_s: 50\n    " + strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n    ")
	planned, err := parseEvents("README", []byte(event))
	require.NoError(t, err)
	require.Len(t, planned[0].settings.Groups, 2)
	require.Len(t, planned[0].settings.Lanes, 2)
}

// What is printed at the start names an event that is there.
func TestGreeting(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"demo":       {"http://w/\n", "http://w/e/demo/shop\n", "--event demo"},
		"concert":    {"http://w/e/concert\n", "http://w/e/concert/shop\n", "--event concert"},
		"game-login": {"http://w/e/game-login\n", "--event game-login"},
		"token-drop": {"http://w/e/token-drop\n"}, "winner": {"http://w/e/winner\n"}, "course-registration": {"http://w/e/course-registration\n"},
	} {
		events, err := preset(name)
		require.NoError(t, err)
		text := (&service{publicURL: "http://w"}).greeting(plan{events: events}, nil)
		for _, part := range want {
			require.Contains(t, text, part)
		}
		require.Equal(t, len(want) > 1, strings.Contains(text, "a crowd"), "load's people stand in line, and have no login: %s", name)
		require.Equal(t, events[0].settings.Tickets.Kind != "none", strings.Contains(text, "/shop"))
	}
}
