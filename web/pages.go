package web

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"mime"
	"path"

	"github.com/labstack/echo/v4"
)

// page is one file, ready to send. The pages are the same bytes for everyone.
type page struct {
	body packed
	kind string
	etag string
}

// loadPages reads all files once; they are few, and embedded.
func loadPages(files fs.FS) (map[string]page, error) {
	pages := make(map[string]page)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		pages[name] = page{
			body: pack(body),
			kind: contentType(name),
			etag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:9]) + `"`,
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	for _, name := range []string{"index.html", "shop.html", "console.html"} {
		if _, ok := pages[name]; !ok {
			return nil, fmt.Errorf("pages: %s is missing", name)
		}
	}
	return pages, nil
}

// contentType does not ask the machine's own table, which differs from one to the
// next, for the kinds that our pages are made of.
func contentType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".ico":
		return "image/x-icon"
	case ".woff2":
		return "font/woff2"
	case ".json", ".webmanifest":
		return mimeJSON
	default:
		if kind := mime.TypeByExtension(ext); kind != "" {
			return kind
		}
		return "application/octet-stream"
	}
}

func (s *Server) page(name string) echo.HandlerFunc {
	return func(c echo.Context) error {
		if id := c.Param("event"); id != "" && !isEventID(id) {
			return errNotFound
		}
		return s.send(c, name)
	}
}

func (s *Server) asset(c echo.Context) error {
	return s.send(c, "assets/"+c.Param("*"))
}

func (s *Server) send(c echo.Context, name string) error {
	p, ok := s.pages[name]
	if !ok {
		return errNotFound
	}
	c.Response().Header().Set("Content-Security-Policy", s.rules.pageCSP)
	if notModified(c, p.etag, "public, max-age=300") {
		return nil
	}
	return p.body.send(c, p.kind)
}
