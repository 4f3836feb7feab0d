package web

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every threat in the package's table names a test, and that test is there.
func TestThreatsNameTheirTests(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(doc), "//	who  ")
	require.True(t, ok)
	table, _, ok = strings.Cut(table, "\n//\n")
	require.True(t, ok)
	rows := strings.Split(table, "\n//\t")[1:]
	require.Greater(t, len(rows), 25)

	defined := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	root := os.DirFS("..")
	require.NoError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(root, name)
		for _, f := range function.FindAllSubmatch(source, -1) {
			defined[string(f[1])] = true
		}
		return err
	}))
	for _, row := range rows {
		cells := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(row), -1)
		last := cells[len(cells)-1]
		require.Regexp(t, `^(Test|Fuzz)\w+$`, last, "%q names no test", row)
		require.True(t, defined[last], "%s, which %q names, is not there", last, row)
	}
}
