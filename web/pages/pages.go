package pages

import (
	"embed"
	"io/fs"
)

//go:embed static
var files embed.FS

// Files are index.html, shop.html, console.html and assets/, as they are served.
func Files() fs.FS {
	sub, err := fs.Sub(files, "static")
	if err != nil {
		panic("pages: the embedded directory is named static: " + err.Error())
	}
	return sub
}
