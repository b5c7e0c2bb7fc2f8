package deploy

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// binaryBytesMax bounds the binary, and so the image: a dependency that brings
// half the world shows here.
const binaryBytesMax = 50_000_000

// The image that the stage static describes is a valid one, holds two files,
// and its entry point works in it.
func TestStatic(t *testing.T) {
	img := stored(t, assemble(t, stages(t)["static"]))
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("user: wanted the numbers 65532:65532, which a cluster can see not to be root, got %q", config.Config.User)
	}
	dir := filepath.Join(work, "static")
	unpack(t, img, dir)
	checkBinary(t, filepath.Join(dir, "udfgate"))
	runStatic(t, config.Config, dir)
}

// assemble carries out a stage FROM scratch.
func assemble(t *testing.T, s stage) v1.Image {
	t.Helper()
	if s.base != "scratch" {
		t.Fatalf("stage %s: wanted FROM scratch, got %s", s.name, s.base)
	}
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	config := v1.Config{Labels: map[string]string{}, WorkingDir: "/"}
	for _, i := range s.instructions {
		switch i.name {
		case "LABEL":
			for _, p := range i.pairs(t) {
				config.Labels[p[0]] = p[1]
			}
		case "ENV":
			for _, p := range i.pairs(t) {
				config.Env = append(config.Env, p[0]+"="+p[1])
			}
		case "WORKDIR":
			config.WorkingDir = path.Join(config.WorkingDir, i.rest)
		case "USER":
			config.User = i.rest
		case "ENTRYPOINT":
			config.Entrypoint = i.list(t)
		case "COPY":
			if from := i.flag(t, "from"); from != "build" || i.rest != "/out/ /" {
				t.Fatalf("%v: wanted --from=build /out/ /, got --from=%s", i, from)
			}
			img = appendLayer(t, img, built(t))
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	return img
}

// appendLayer adds the contents of a folder as COPY does: everything belongs
// to root, whoever built it, and keeps its mode.
func appendLayer(t *testing.T, img v1.Image, dir string) v1.Image {
	t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		h.Name, h.Uid, h.Gid, h.Uname, h.Gname = filepath.ToSlash(rel), 0, 0, "", ""
		if d.IsDir() {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.AppendLayers(img, layer)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// stored writes the image as an OCI layout, and is what is read back from it.
func stored(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatalf("index: %v", err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	read, err := index.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(read); err != nil { // every digest and size anew
		t.Fatalf("image: %v", err)
	}
	return read
}

// unpack does what a runtime does with the layers, and allows exactly two
// entries: what is not listed cannot be a secret that slipped in.
func unpack(t *testing.T, img v1.Image, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("layer: %.1f MB compressed", float64(size)/1e6)
		packed, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer packed.Close()
		for r := tar.NewReader(packed); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s %04o %d:%d", h.Name, h.Mode, h.Uid, h.Gid))
			extract(t, root, h, r)
		}
	}
	if want := "tmp/ 1777 0:0, udfgate 0755 0:0"; strings.Join(got, ", ") != want {
		t.Errorf("files of the image: wanted %s, got %s", want, strings.Join(got, ", "))
	}
}

func extract(t *testing.T, root *os.Root, h *tar.Header, r io.Reader) {
	t.Helper()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(path.Clean(h.Name), 0o755); err != nil {
			t.Fatal(err)
		}
	case tar.TypeReg:
		f, err := root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, r); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("%s: wanted files and folders only, got type %q", h.Name, h.Typeflag)
	}
	mode := fs.FileMode(h.Mode).Perm()
	if h.Mode&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	if err := root.Chmod(path.Clean(h.Name), mode); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := root.Lchown(path.Clean(h.Name), h.Uid, h.Gid); err != nil {
			t.Fatal(err)
		}
	}
}

// checkBinary wants one that needs nothing of the image it lies in.
func checkBinary(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("binary: %.1f MB", float64(len(text))/1e6)
	if len(text) > binaryBytesMax {
		t.Errorf("binary: wanted at most %d bytes (binaryBytesMax), got %d", binaryBytesMax, len(text))
	}
	if bytes.Contains(text, []byte(work)) {
		t.Errorf("binary: it names the folder it was built in, %s", work)
	}
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("binary: wanted a static one, got a %v segment", p.Type)
		}
	}
}
