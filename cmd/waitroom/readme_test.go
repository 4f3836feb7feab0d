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
