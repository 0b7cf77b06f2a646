// Tracks from hits in C++: reads a CSV file of hits, runs a model of `hept-train export`, prints track ids.
//
//     find_tracks model.onnx hits.csv [EPS [MIN_POINTS]]
//
// The CSV file has a header and one line a hit, with a column for every input of the model in the units that the
// model's metadata names ("inputs"); further columns are ignored. All hits are one cloud. Printed is
// "point,track", where -1 stands for no track.
//
// Clustering: hits whose embeddings are nearer than EPS belong together, directly or through others (union-find
// over all pairs); groups below MIN_POINTS are no tracks. This is DBSCAN without its density condition. All pairs
// are compared: for 60,000 hits and more, replace `find_groups` by a search tree.

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Columns = std::map<std::string, std::vector<double>>;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  std::string cell;
  while (std::getline(stream, cell, ',')) {
    // Files from Windows end their lines with \r\n.
    if (!cell.empty() && cell.back() == '\r') cell.pop_back();
    cells.push_back(cell);
  }
  return cells;
}

Columns read_csv(const std::string& path, std::size_t& n_points) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) throw std::runtime_error(path + ": no such file, or an empty one");
  const auto names = split(line);
  Columns columns;
  n_points = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line == "\r") continue;
    const auto cells = split(line);
    ++n_points;
    if (cells.size() != names.size())
      throw std::runtime_error(path + ": " + std::to_string(cells.size()) + " cells for hit " +
                               std::to_string(n_points) + "; expected " + std::to_string(names.size()));
    for (std::size_t i = 0; i < names.size(); ++i) {
      char* end = nullptr;
      const double value = std::strtod(cells[i].c_str(), &end);
      if (end == cells[i].c_str())
        throw std::runtime_error(path + ": '" + cells[i] + "' in column " + names[i] + "; expected a number");
      columns[names[i]].push_back(value);
    }
  }
  if (n_points == 0) throw std::runtime_error(path + ": no hits");
  return columns;
}

// The inputs of a model, and the memory that they lie in: a tensor of onnxruntime does not own its values.
struct Inputs {
  std::vector<std::string> names;
  std::vector<Ort::Value> tensors;
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::int64_t>> integers;
};

template <typename T>
Ort::Value wrap(std::vector<T>& values) {
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())};
  return Ort::Value::CreateTensor<T>(memory, values.data(), values.size(), shape, 1);
}

Inputs make_inputs(Ort::Session& session, const Columns& columns, std::size_t n_points) {
  Ort::AllocatorWithDefaultOptions allocator;
  const std::size_t n_inputs = session.GetInputCount();
  Inputs inputs;
  // Reserved, so that a value never moves after a tensor points to it.
  inputs.floats.reserve(n_inputs);
  inputs.integers.reserve(n_inputs);
  for (std::size_t i = 0; i < n_inputs; ++i) {
    const std::string name = session.GetInputNameAllocated(i, allocator).get();
    inputs.names.push_back(name);
    if (name == "offsets") {
      // Where clouds begin, then the number of points. Several clouds lie one behind the other.
      inputs.integers.push_back({0, static_cast<std::int64_t>(n_points)});
      inputs.tensors.push_back(wrap(inputs.integers.back()));
      continue;
    }
    const auto found = columns.find(name);
    if (found == columns.end()) throw std::runtime_error("no column '" + name + "', which the model reads");
    const auto type_info = session.GetInputTypeInfo(i);
    const auto type = type_info.GetTensorTypeAndShapeInfo().GetElementType();
    const auto& values = found->second;
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) {
      // Classes, such as the kind of a particle.
      inputs.integers.emplace_back(values.begin(), values.end());
      inputs.tensors.push_back(wrap(inputs.integers.back()));
    } else {
      inputs.floats.emplace_back(values.begin(), values.end());
      inputs.tensors.push_back(wrap(inputs.floats.back()));
    }
  }
  return inputs;
}

std::vector<Ort::Value> run(Ort::Session& session, const Inputs& inputs) {
  Ort::AllocatorWithDefaultOptions allocator;
  const std::string output = session.GetOutputNameAllocated(0, allocator).get();
  if (output != "embedding") throw std::runtime_error("the model gives '" + output + "'; expected embeddings");
  std::vector<const char*> names;
  for (const auto& name : inputs.names) names.push_back(name.c_str());
  const char* outputs[] = {output.c_str()};
  return session.Run(Ort::RunOptions{nullptr}, names.data(), inputs.tensors.data(), names.size(), outputs, 1);
}

std::size_t find_root(std::vector<std::size_t>& parent, std::size_t i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

std::vector<long> find_groups(const float* rows, std::size_t n, std::size_t width, double eps, std::size_t least) {
  std::vector<std::size_t> parent(n);
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      double square = 0;
      for (std::size_t k = 0; k < width; ++k) {
        const double apart = static_cast<double>(rows[i * width + k]) - rows[j * width + k];
        square += apart * apart;
      }
      if (square < eps * eps) {
        const std::size_t a = find_root(parent, i), b = find_root(parent, j);
        // The smaller index leads, so that tracks are numbered by their first hit.
        parent[std::max(a, b)] = std::min(a, b);
      }
    }
  }
  std::vector<std::size_t> count(n, 0);
  for (std::size_t i = 0; i < n; ++i) ++count[find_root(parent, i)];
  std::map<std::size_t, long> number;
  std::vector<long> track(n, -1);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t root = find_root(parent, i);
    if (count[root] >= least) track[i] = number.emplace(root, static_cast<long>(number.size())).first->second;
  }
  return track;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::cerr << "usage: find_tracks model.onnx hits.csv [EPS [MIN_POINTS]]\n";
    return 2;
  }
  try {
    const double eps = argc > 3 ? std::atof(argv[3]) : 0.2;
    const std::size_t least = argc > 4 ? static_cast<std::size_t>(std::atoi(argv[4])) : 3;
    std::size_t n_points = 0;
    const Columns columns = read_csv(argv[2], n_points);
    Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "find_tracks");
    Ort::SessionOptions options;
    // The arena would keep what the largest event needed, rounded up to powers of two.
    options.DisableCpuMemArena();
    // Versions such as 1.23 replace a product in double precision by an operator that they do not have.
    options.AddConfigEntry("optimization.disable_specified_optimizers", "MatmulTransposeFusion");
    Ort::Session session(env, argv[1], options);
    const Inputs inputs = make_inputs(session, columns, n_points);
    const auto outputs = run(session, inputs);
    const auto shape = outputs[0].GetTensorTypeAndShapeInfo().GetShape();
    const auto width = static_cast<std::size_t>(shape.at(1));
    const auto track = find_groups(outputs[0].GetTensorData<float>(), n_points, width, eps, least);
    std::cout << "point,track\n";
    for (std::size_t i = 0; i < track.size(); ++i) std::cout << i << ',' << track[i] << '\n';
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
