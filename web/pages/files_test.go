package pages_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/pages"
)

var documents = []string{"index.html", "shop.html", "console.html"}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(pages.Files(), name)
	require.NoError(t, err)
	return string(b)
}

func assets(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(pages.Files(), "assets/*.*") // what is vendored is in a folder
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

// Promise 1: nothing stands inline, nothing comes from elsewhere.
func TestPromise1NothingInlineNothingForeign(t *testing.T) {
	t.Parallel()
	for _, name := range documents {
		html := read(t, name)
		require.Regexp(t, `(?i)^<!doctype html>`, html, name)
		for fault, pattern := range map[string]string{
			"an inline script": `(?is)<script(?:\s[^>]*)?>\s*[^<\s]`,
			"a style element":  `(?i)<style`,
			"a style":          `(?i)\sstyle\s*=`,
			"a handler":        `(?i)\son[a-z]+\s*=\s*["']`,
			"a script address": `(?i)javascript:`,
			"a foreign file":   `(?i)(?:src|href|action)\s*=\s*["']?(?:[a-z]+:)?//`,
			"a base":           `(?i)<base`,
		} {
			require.NotRegexp(t, pattern, html, "%s has %s", name, fault)
		}
	}
	foreign := regexp.MustCompile(`(?i)\b(?:https?|wss?)://[a-z0-9]`)
	for _, name := range assets(t) {
		body := strings.ReplaceAll(read(t, name), "http://www.w3.org/2000/svg", "")
		require.NotRegexp(t, foreign, body, "%s names a foreign address", name)
		require.NotRegexp(t, `\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write`, body, "%s makes code or markup of text", name)
		require.NotRegexp(t, `document\.cookie`, body, "%s touches a cookie", name)
	}
}

var (
	imported   = regexp.MustCompile(`(?m)^import [^;]*? from '(\./[a-z-]+\.js)'`)
	late       = regexp.MustCompile(`import\('(\./[a-z-]+\.js)'\)`)
	preloaded  = regexp.MustCompile(`<link rel="modulepreload" href="/(assets/[a-z-]+\.js)">`)
	referenced = regexp.MustCompile(`(?:href|src)="/(assets/[^"]+)"`)
	entrance   = regexp.MustCompile(`<script type="module" src="/(assets/[a-z-]+\.js)"></script>`)
)

// reached are all modules that a module needs, itself included.
func reached(t *testing.T, module string, seen map[string]bool) {
	t.Helper()
	if seen[module] {
		return
	}
	seen[module] = true
	for _, m := range imported.FindAllStringSubmatch(read(t, module), -1) {
		reached(t, path.Join("assets", m[1]), seen)
	}
}

// Every file that is named is there, every file that is there is used, and a page
// asks for all of its modules at once, but for those that few need.
func TestFilesFitTogether(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for _, name := range documents {
		html := read(t, name)
		for _, m := range referenced.FindAllStringSubmatch(html, -1) {
			used[m[1]] = true
		}
		script := entrance.FindAllStringSubmatch(html, -1)
		require.Len(t, script, 1, "%s has one entrance", name)
		needs := make(map[string]bool)
		reached(t, script[0][1], needs)
		for module := range needs {
			for _, m := range late.FindAllStringSubmatch(read(t, module), -1) {
				used[path.Join("assets", m[1])] = true
			}
		}
		delete(needs, script[0][1])
		var preloads []string
		for _, m := range preloaded.FindAllStringSubmatch(html, -1) {
			preloads = append(preloads, m[1])
		}
		var want []string
		for module := range needs {
			want = append(want, module)
		}
		slices.Sort(want)
		slices.Sort(preloads)
		require.Equal(t, want, preloads, "%s preloads what it needs", name)
	}
	for _, name := range assets(t) {
		require.True(t, used[name], "%s is used by no page", name)
		delete(used, name)
	}
	require.Empty(t, used, "pages name files that are not there")
}

// Every element that a script looks for is in a page that loads the script.
func TestScriptsFindTheirElements(t *testing.T) {
	t.Parallel()
	looked := regexp.MustCompile(`\$\('([a-z-]+)'\)`)
	for _, name := range documents {
		html := read(t, name)
		needs := make(map[string]bool)
		reached(t, entrance.FindStringSubmatch(html)[1], needs)
		for module := range needs {
			for _, m := range looked.FindAllStringSubmatch(read(t, module), -1) {
				require.Contains(t, html, fmt.Sprintf(` id="%s"`, m[1]), "%s, loaded by %s, looks for it", module, name)
			}
		}
		ids := regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(html, -1)
		seen := make(map[string]bool)
		for _, id := range ids {
			require.False(t, seen[id[1]], "%s has %s twice", name, id[1])
			seen[id[1]] = true
		}
	}
}

// table is the English of strings.js, as far as it can be read without running it.
func table(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^ {2}'([a-z0-9_.]+)': (.*),$`).FindAllStringSubmatch(read(t, "assets/strings.js"), -1) {
		require.NotContains(t, texts, m[1], "%s stands twice", m[1])
		texts[m[1]] = strings.Trim(m[2], "'")
	}
	require.Greater(t, len(texts), 100)
	return texts
}

// Promise 8: every code of the contract has a sentence.
func TestPromise8EveryCodeHasASentence(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../openapi.json")
	require.NoError(t, err)
	var doc struct {
		Components struct {
			Schemas struct {
				Code struct {
					Enum []string `json:"enum"`
				} `json:"Code"`
			} `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	codes := doc.Components.Schemas.Code.Enum
	require.Greater(t, len(codes), 30)
	texts := table(t)
	for _, code := range codes {
		require.NotEmpty(t, texts["no."+code], "refusal %s", code)
	}
}

// Promise 9: the pages' English is that of strings.js, and every sentence is used.
func TestPromise9SentencesStandInOnePlace(t *testing.T) {
	t.Parallel()
	texts := table(t)
	used := make(map[string]bool)
	element := regexp.MustCompile(`<[a-z0-9]+[^>]* data-t="([^"]+)"[^>]*>([^<]*)<`)
	for _, name := range documents {
		html := read(t, name)
		require.Contains(t, html, `<html lang="en">`)
		found := element.FindAllStringSubmatch(html, -1)
		require.Len(t, found, strings.Count(html, ` data-t="`), "%s: an element with data-t holds text only", name)
		for _, m := range found {
			used[m[1]] = true
			require.Contains(t, texts, m[1], name)
			if m[2] != "" {
				require.Equal(t, texts[m[1]], m[2], "%s: %s", name, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`aria-label="([^"]*)"`).FindAllStringSubmatch(html, -1) {
			require.Contains(t, html, `data-t-label="`, name)
			require.True(t, slices.Contains(values(texts), m[1]), "%s: %q is no sentence of ours", name, m[1])
		}
		for _, m := range regexp.MustCompile(`data-t-label="([^"]*)"`).FindAllStringSubmatch(html, -1) {
			used[m[1]] = true
		}
	}
	var code strings.Builder
	for _, name := range assets(t) {
		if name != "assets/strings.js" && strings.HasSuffix(name, ".js") {
			code.WriteString(read(t, name))
		}
	}
	var silent []string
	for key := range texts {
		made := regexp.MustCompile("['\"`]" + regexp.QuoteMeta(key) + "['\"`]").MatchString(code.String())
		stem := false // made of a state or a code: `end.${key}.title`
		for i := strings.Index(key, "."); i > 0 && !stem; {
			stem = strings.Contains(code.String(), "`"+key[:i]+".${")
			next := strings.Index(key[i+1:], ".")
			if next < 0 {
				break
			}
			i += next + 1
		}
		if !used[key] && !made && !stem && !strings.HasPrefix(key, "no.") {
			silent = append(silent, key)
		}
	}
	require.Empty(t, silent, "sentences that nobody says")
}

func values(m map[string]string) []string {
	all := make([]string, 0, len(m))
	for _, v := range m {
		all = append(all, v)
	}
	return all
}
