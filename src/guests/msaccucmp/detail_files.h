// DetailFiles: the files of -op for one tensor: its elements beside the golden ones, the largest errors, a summary.
#pragma once

#include <filesystem>
#include <string>

#include "ground/base/parallel.h"
#include "guests/msaccucmp/alignment.h"
#include "guests/msaccucmp/compare.h"
#include "guests/msaccucmp/numpy_numbers.h"

namespace sonde::msaccucmp {

struct DetailNames {
  std::string left_ops, right_ops, axes;
};

class DetailFiles {
 public:
  // `dump_file`: the name of the tensor's file; shorter names are made from it.
  DetailFiles(std::filesystem::path directory, const SingleOperator& single, std::int64_t index, std::string dump_file);

  // Removes the files of an earlier run.
  Outcome<bool> write(const Aligned& aligned, const DetailNames& names, const Threads& threads, const Log& log) const;

 private:
  struct Summary;
  struct Tops;

  void remove_old() const;
  // The file for P + `ending`, under a shorter name if that one is too long for a file system.
  std::filesystem::path file(const std::string& ending, const std::string& short_ending) const;
  Outcome<bool> write_array(const Aligned& aligned) const;
  Outcome<bool> write_elements(const ElementErrors& errors, const Aligned& aligned, const std::string& header,
                               const Threads& threads) const;
  Outcome<bool> write_tops(const ElementErrors& errors, const Aligned& aligned, const Summary& summary,
                           const std::string& header, const Log& log) const;
  Outcome<bool> write_summary(const Summary& summary, const DetailNames& names, bool are_bools) const;

  std::filesystem::path directory_;
  const SingleOperator& single_;
  std::string prefix_, tensor_, dump_file_;
};

}  // namespace sonde::msaccucmp
