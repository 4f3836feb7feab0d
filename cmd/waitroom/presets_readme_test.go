package main

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const presetsReadme = "../../deploy/events/README.md"

// presetSection is a preset's part of the presets' README: the two commands, and what
// the second printed between markers.
type presetSection struct{ serve, crowd, output string }

func readPresetSection(t *testing.T, text, name string) presetSection {
	t.Helper()
	_, section, found := strings.Cut(text, "\n## "+name+"\n")
	require.True(t, found, "%s has no section", name)
	section, _, _ = strings.Cut(section, "\n## ")
	parts := strings.Split(section, "```\n")
	require.GreaterOrEqual(t, len(parts), 5, name)
	_, output, found := strings.Cut(section, "<!-- "+name+":begin -->\n")
	require.True(t, found, name)
	output, _, found = strings.Cut(output, "<!-- "+name+":end -->")
	require.True(t, found, name)
	return presetSection{serve: strings.TrimSpace(parts[1]), crowd: strings.TrimSpace(parts[3]), output: output}
}

// The presets' README shows for each how it is started, what brings it a crowd, and
// what that printed. With UPDATE_README=1 all of them are played, and written anew;
// with UPDATE_README=NAME one is.
func TestPresetReadme(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(presetsReadme)
	require.NoError(t, err)
	text := string(raw)
	update := os.Getenv("UPDATE_README") // 1, or a preset
	for _, name := range presetNames() {
		section := readPresetSection(t, text, name)
		command, more, _ := strings.Cut(section.serve, " --identity-secret ")
		require.Equal(t, "waitroom serve --preset "+name, command)
		require.Contains(t, section.crowd, name)
		if update == "1" || update == name {
			flags := []string{"--preset", name}
			if more != "" {
				flags = append(flags, "--identity-secret", universitySecret)
			}
			before, rest, _ := strings.Cut(text, "<!-- "+name+":begin -->\n")
			_, after, _ := strings.Cut(rest, "<!-- "+name+":end -->")
			text = before + "<!-- " + name + ":begin -->\n```\n" + plays(t, section.crowd, flags...) + "```\n<!-- " + name + ":end -->" + after
			require.NoError(t, os.WriteFile(presetsReadme, []byte(text), 0o600))
			continue
		}
		if update != "" {
			continue
		}
		output := strings.TrimSpace(section.output)
		require.NotEmpty(t, output, "run UPDATE_README=1 go test ./cmd/waitroom -run TestPresetReadme")
		if strings.HasPrefix(section.crowd, "waitroom load") {
			require.True(t, strings.HasSuffix(output, "\nOK\n```"), "%s: %s", name, output)
			require.Contains(t, output, "on "+name+",", "it is this preset's")
		}
	}
}

// universitySecret is the SECRET of the README's lines.
const universitySecret = "a secret of the university, for trying only"

// plays starts a preset and brings its crowd by the README's own line.
func plays(t *testing.T, crowd string, flags ...string) string {
	t.Helper()
	s := startInstance(t, flags...)
	bin, err := binary()
	require.NoError(t, err)
	tools := t.TempDir() // the command's name is that of the release
	require.NoError(t, os.Symlink(bin, filepath.Join(tools, "waitroom")))
	at, err := url.Parse(s.url)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", strings.ReplaceAll(crowd, "127.0.0.1:8080", at.Host))
	cmd.Env = append(cleanEnviron(), "PATH="+tools+":"+os.Getenv("PATH"), "SECRET="+universitySecret)
	out, err := cmd.Output()
	require.NoError(t, err, "%s\n%s", crowd, out)
	return shortened(string(out))
}

// shortened leaves the table of times out of what waitroom load prints.
func shortened(out string) string {
	var kept strings.Builder
	for part := range strings.SplitSeq(strings.Trim(out, "\n"), "\n\n") {
		if !strings.Contains(part, "latency in ms") {
			if kept.Len() > 0 {
				kept.WriteString("\n")
			}
			kept.WriteString(part + "\n")
		}
	}
	return kept.String()
}
