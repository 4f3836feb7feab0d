package pages_test

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/browsertest"
)

// outcome of one test of a module.
type outcome struct {
	Name  string `json:"name"`
	Fault string `json:"fault"`
}

// TestModules runs the tests of the plain modules, testdata/*.test.js, in the
// browser that they are made for.
func TestModules(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/test/blank.html")
	files, err := fs.Glob(os.DirFS("testdata"), "*.test.js")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		p.Run(fmt.Sprintf(`window.done = null;
			import('/test/%s').then(async (m) => {
				const all = [];
				for (const [name, act] of Object.entries(m.default)) {
					let fault = '';
					try { await act(); } catch (err) { fault = String(err); }
					all.push({ name, fault });
				}
				window.done = all;
			}).catch((err) => { window.done = [{ name: 'load', fault: String(err) }]; });`, file))
		p.Until("window.done !== null")
		outcomes := browsertest.Value[[]outcome](p, "window.done")
		require.NotEmpty(t, outcomes, file)
		for _, o := range outcomes {
			t.Run(strings.TrimSuffix(file, ".test.js")+"/"+o.Name, func(t *testing.T) {
				t.Parallel()
				require.Empty(t, o.Fault)
			})
		}
	}
}
